"""aiokafka in classic groups."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from support.brokers.bootstrap import AT_ONCE, serving
from support.wire.topics import MakeTopic

T = TypeVar("T")
DEADLINE_S = 60.0
PAUSE_S = 0.02


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with serving(AT_ONCE) as servers:
        yield servers


def run(work: Coroutine[object, object, T]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work, DEADLINE_S)

    return asyncio.run(bounded())


def member(bootstrap: str, group: str, topic: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=300,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=1_000,
    )


async def until(condition: Callable[[], bool]) -> None:
    """The test's own deadline ends it."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(PAUSE_S)


def owned(*consumers: AIOKafkaConsumer) -> list[int]:
    """The partitions of all consumers; a partition with two owners appears twice."""
    return sorted(part.partition for one in consumers for part in one.assignment())


def test_two_members_share_partitions_and_one_takes_over_when_the_other_leaves(
    bootstrap: str, make_topic: MakeTopic, new_name: Callable[[], str]
) -> None:
    topic, group = make_topic(4), new_name()

    async def work() -> None:
        async with member(bootstrap, group, topic) as first:
            await until(lambda: owned(first) == [0, 1, 2, 3])
            async with member(bootstrap, group, topic) as second:
                await until(lambda: owned(first, second) == [0, 1, 2, 3] and len(owned(first)) == 2)
            await until(lambda: owned(first) == [0, 1, 2, 3])

    run(work())


def test_a_group_resumes_from_its_committed_offsets(
    bootstrap: str, topic: str, new_name: Callable[[], str]
) -> None:
    group = new_name()

    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(20):
                await producer.send_and_wait(topic, b"%d" % number)
        async with member(bootstrap, group, topic) as first:
            for _ in range(8):
                await first.getone()
            await first.commit()
        async with member(bootstrap, group, topic) as second:
            rest = [(await second.getone()).offset for _ in range(12)]
        assert rest == list(range(8, 20))

    run(work())
