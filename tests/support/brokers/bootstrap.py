"""The broker for a test: a Headrace broker, or the Kafka that the test run is configured with."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

REFERENCE = os.environ.get("HEADRACE_TEST_BOOTSTRAP")
AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
"""Settings of a broker whose groups form without waiting for more members."""


@contextmanager
def serving(settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """The bootstrap servers of a broker with these settings; the reference Kafka has its own."""
    if REFERENCE:
        yield REFERENCE
        return
    from headrace.testing import Broker

    with Broker(settings=settings) as broker:
        yield broker.bootstrap_servers
