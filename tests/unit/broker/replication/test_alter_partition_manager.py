"""ISR changes: each proposal of a leader is sent until the controller decides it."""

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest

from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.broker.replication.alter_partition_manager import AlterPartitionManager
from headrace.broker.replication.catch_up_throttle import CatchUpThrottle
from headrace.broker.replication.fetch_sessions_at_leader import FollowerFetchSessions
from headrace.broker.runtime.timers import Timers
from headrace.clock import Clock, SystemClock
from headrace.cluster.image import MetadataImage
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.topology import BrokerRegistration, Partition
from headrace.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from headrace.replication.leader import Leader
from support.storage.memory_log import TOPIC_ID, open_log

LIVE = {1: 11, 2: 12, 3: 13}


class Metadata:
    """Every broker is alive."""

    image = MetadataImage(
        brokers={id_: BrokerRegistration(id_, epoch, ()) for id_, epoch in LIVE.items()}
    )


class NoThrottle:
    """Nothing is throttled."""

    def is_throttled(self, leader: Leader, replica_id: int) -> bool:
        return False

    def sent(self, leader: Leader, replica_id: int, size_bytes: int) -> None: ...


@dataclass
class Host:
    """The part of a broker that ISR changes use."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers
    partitions: list[Leader]
    settings: BrokerSettings = field(default_factory=BrokerSettings)
    metadata: MetadataView = field(default_factory=Metadata)
    node_id: int = 1
    broker_epoch: int = LIVE[1]


def a_leader() -> Leader:
    _, log = open_log()
    return Leader(
        "t",
        TOPIC_ID,
        0,
        Partition(replicas=(1, 2, 3), isr=(1,), leader=1),
        lambda _replica: log,
        broker_id=1,
        min_isr=1,
        high_watermark=0,
        now=0.0,
    )


def test_a_change_proposed_before_the_last_response_is_sent_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Metadata may show a change before its response arrives, and then the next is proposed.

    The late response must not cancel the next change: otherwise the second follower would stay
    out of sync. Both changes are logged.
    """
    caplog.set_level("INFO")

    async def story() -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        timers = Timers(loop, clock)
        leader = a_leader()
        asked: list[list[int]] = []
        settled = asyncio.Event()

        async def ask(request: AlterPartitionRequest) -> AlterPartitionResponse:
            wanted = request.topics[0].partitions[0]
            ids = [each.broker_id for each in wanted.new_isr_with_epochs]
            asked.append(ids)
            changed = leader.partition._replace(
                isr=tuple(ids), partition_epoch=wanted.partition_epoch + 1
            )
            leader.partition_changed(changed, clock.monotonic())
            fetched(3)
            if len(ids) == 3:
                settled.set()
            answer = AlteredPartition(
                partition_index=0, leader_id=1, isr=ids, partition_epoch=changed.partition_epoch
            )
            topic = AlteredTopic(topic_id=TOPIC_ID, partitions=[answer])
            return AlterPartitionResponse(topics=[topic])

        def fetched(follower: int) -> None:
            leader.fetched(follower, LIVE[follower], 0, 0, clock.monotonic())
            keeper.followers_fetched(follower, [leader])

        sessions = FollowerFetchSessions(Random(1), NoThrottle(), lambda: CatchUpThrottle(0))
        keeper = AlterPartitionManager(Host(loop, clock, timers, [leader]), sessions, ask)
        try:
            fetched(2)
            async with asyncio.timeout(10):
                await settled.wait()
                while len(caplog.records) < 2:  # noqa: ASYNC110 - no event tells of a line
                    await asyncio.sleep(0.001)
        finally:
            keeper.close()
            timers.close()
        assert asked == [[1, 2], [1, 2, 3]]
        expanded = [(each.getMessage(), each.__dict__["replica"]) for each in caplog.records]
        assert expanded == [("the ISR expanded", 2), ("the ISR expanded", 3)]

    asyncio.run(story())
