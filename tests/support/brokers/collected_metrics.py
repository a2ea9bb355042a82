"""The metrics of a broker, straight from its collectors."""

import asyncio
from collections.abc import Iterable
from typing import cast

from headrace.broker.metrics.collectors import build_collectors
from headrace.broker.node import Broker as Node
from headrace.metrics.family import PreparedCollector
from headrace.testing import Broker

TIMEOUT_S = 30.0

Series = dict[tuple[str, ...], float]
Families = dict[str, Series]


def collected(broker: Broker) -> Families:
    """Every family of this broker, by its name."""
    node = broker.node
    assert node is not None

    async def collect() -> Families:
        found: Families = {}
        for collector in build_collectors(node):
            if hasattr(collector, "prepare"):
                await cast("PreparedCollector", collector).prepare()
            for family in collector.collect():
                assert family.name not in found
                samples = list(family.samples)
                found[family.name] = dict(samples)
                assert len(found[family.name]) == len(samples)
        return found

    return asyncio.run_coroutine_threadsafe(collect(), node.loop).result(TIMEOUT_S)


def expire_snapshot(node: Node) -> None:
    """Makes the next scrape compute the lag again."""
    snapshot = node.lag.snapshot
    object.__setattr__(snapshot, "fresh_until", 0.0)


def scraped(brokers: Iterable[Broker]) -> Families:
    """The families of all brokers together; no series comes from two of them."""
    together: Families = {}
    for broker in brokers:
        assert broker.node is not None
        broker.on_loop(lambda node=broker.node: expire_snapshot(node))  # type: ignore[misc]
        for name, series in collected(broker).items():
            if name.startswith("headrace_") and () in series:
                continue  # one number of each broker
            known = together.setdefault(name, {})
            assert not known.keys() & series.keys(), f"{name} has a series of two brokers"
            known.update(series)
    return together
