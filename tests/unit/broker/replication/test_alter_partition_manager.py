"""Changes of in-sync sets: each that a leader proposes is asked for until it is settled."""

import asyncio
from types import SimpleNamespace
from typing import cast

from headrace.broker.node import Broker
from headrace.broker.replication.alter_partition_manager import AlterPartitionManager
from headrace.broker.runtime.timers import Timers
from headrace.clock import SystemClock
from headrace.cluster.topology import Partition
from headrace.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from headrace.replication.leader import Leader
from support.storage.memory_log import TOPIC_ID, open_log

LIVE = {1: 11, 2: 12, 3: 13}


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


def test_a_change_proposed_while_the_last_ones_answer_is_on_its_way_is_asked_for() -> None:
    """Metadata may tell of a change before its answer comes, and then the next is proposed.

    Found with 1,000 partitions after all brokers were killed: the late answer put an end to the
    next change, and the second follower stayed out of sync for ever.
    """

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

        live = [SimpleNamespace(broker_id=id_, epoch=LIVE[id_], leaving=False) for id_ in LIVE]
        broker = SimpleNamespace(
            settings=SimpleNamespace(integer=lambda _name: 30_000),
            loop=loop,
            clock=clock,
            timers=timers,
            partitions=[leader],
            metadata=SimpleNamespace(image=SimpleNamespace(live_brokers=lambda: live)),
            node_id=1,
            broker_epoch=LIVE[1],
        )
        keeper = AlterPartitionManager(cast("Broker", broker), ask)
        try:
            fetched(2)
            async with asyncio.timeout(10):
                await settled.wait()
        finally:
            keeper.close()
            timers.close()
        assert asked == [[1, 2], [1, 2, 3]]

    asyncio.run(story())
