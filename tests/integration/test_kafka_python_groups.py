"""kafka-python 3 in classic groups."""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from support.brokers.bootstrap import AT_ONCE, serving
from support.waiting import wait_for
from support.wire.topics import MakeTopic

with warnings.catch_warnings():
    # It reads its schemas through an importlib API that newer Python versions deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

DEADLINE_S = 60.0
POLL_MS = 500  # long enough for a rebalance: a poll that ends during one restarts it


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with serving(AT_ONCE) as servers:
        yield servers


def member(bootstrap: str, group: str, topic: str) -> KafkaConsumer:
    return KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=300,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


class Member:
    """A consumer polled by its own thread, as in an application."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.owned: list[int] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._poll, args=(bootstrap, group, topic))
        self._thread.start()

    def _poll(self, bootstrap: str, group: str, topic: str) -> None:
        with closing(member(bootstrap, group, topic)) as consumer:
            while not self._stopped.is_set():
                consumer.poll(timeout_ms=POLL_MS)
                self.owned = sorted(part.partition for part in consumer.assignment())

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(DEADLINE_S)


def test_two_members_share_partitions_and_one_takes_over_when_the_other_leaves(
    bootstrap: str, make_topic: MakeTopic, new_name: Callable[[], str]
) -> None:
    topic, group = make_topic(4), new_name()
    everything = [0, 1, 2, 3]

    def until(condition: Callable[[], bool], what: str) -> None:
        wait_for(condition, what, deadline_s=DEADLINE_S)

    with closing(Member(bootstrap, group, topic)) as first:
        until(lambda: first.owned == everything, "the first has everything")
        with closing(Member(bootstrap, group, topic)) as second:
            until(
                lambda: len(first.owned) == 2 and sorted(first.owned + second.owned) == everything,
                "both have half",
            )
        until(lambda: first.owned == everything, "the first has everything again")


def test_a_group_resumes_from_its_committed_offsets(
    bootstrap: str, topic: str, new_name: Callable[[], str]
) -> None:
    group = new_name()
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number)
        producer.flush(DEADLINE_S)
    with closing(member(bootstrap, group, topic)) as first:
        read = [next(first).offset for _ in range(8)]
        assert read == list(range(8))
        first.commit()
    with closing(member(bootstrap, group, topic)) as second:
        assert [next(second).offset for _ in range(12)] == list(range(8, 20))
