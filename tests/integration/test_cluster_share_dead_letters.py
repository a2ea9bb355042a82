"""Dead letters of share groups in a cluster: any broker may lead their topic."""

from pathlib import Path
from unittest.mock import create_autospec

import pytest

from headrace.broker.share.dlq_partition import NotWritten
from headrace.broker.share.share_dead_letters import ShareDeadLetters
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.replication.sole_leader import SoleLeader
from headrace.share.record_state import RejectedRecord
from support.brokers.members import Members, run, until

ENABLE = "errors.deadletterqueue.group.enable"
LETTERS = "dlq.g"


class Source:
    """A share partition whose records are rejected."""

    key = SharePartitionKey("g", bytes(16), 0)
    config = GroupConfig(share_dead_letter_topic=LETTERS)

    def __init__(self) -> None:
        self.leader: SoleLeader = create_autospec(SoleLeader, instance=True, topic="t")


async def create(members: Members, leader: int) -> None:
    replicas = [leader, *(id_ for id_ in members.brokers if id_ != leader)]
    new = CreatableTopic(
        name=LETTERS,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
        configs=[CreatableTopicConfig(name=ENABLE, value="true")],
    )
    answer = await members.ask(1, CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message
    await until(members.agree, "everybody knows")


@pytest.mark.parametrize("leader", [1, 2])
def test_dead_letters_are_committed_and_found_on_any_leader_of_their_topic(
    tmp_path: Path, leader: int
) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            await create(members, leader)
            writer = ShareDeadLetters(members.brokers[1])
            assert await writer.written(Source()) == frozenset()
            first, second = (
                RejectedRecord(3, 5, 1, rejected=True),
                RejectedRecord(9, 9, 2, rejected=False),
            )
            assert await writer.write(Source(), first) == 5
            assert await writer.written(Source()) == {3, 4, 5}
            assert await writer.write(Source(), second) == 9
            assert await writer.written(Source()) == {9}
            for id_ in members.brokers:
                await until(lambda at=id_: _copied(members, at), "every replica has the letters")

    run(test())


def test_dead_letters_are_not_written_with_too_few_in_sync_replicas(tmp_path: Path) -> None:
    async def test() -> None:
        settings = {"min.insync.replicas": "3", "replica.lag.time.max.ms": "1500"}
        async with Members(tmp_path, settings=settings) as members:
            await create(members, 2)
            await members.stop(3)
            await until(lambda: 3 not in members.partition(2, LETTERS).isr, "one replica is gone")
            with pytest.raises(NotWritten, match="NOT_ENOUGH_REPLICAS"):
                await ShareDeadLetters(members.brokers[1]).write(
                    Source(), RejectedRecord(0, 0, 1, rejected=True)
                )

    run(test())


def _copied(members: Members, id_: int) -> bool:
    replica = members.brokers[id_].partitions.replica(LETTERS, 0)
    return replica is not None and replica.log.log_end_offset == 4
