"""Locks in DescribeShareGroupOffsets: what a leader answers is what the coordinator reads."""

import pytest

from headrace.broker.share.lock_fields import (
    MAX_LOCKS_PER_GROUP,
    add_locks,
    locks_in,
    request_of,
)
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from headrace.share.in_flight import (
    NOTHING_LOADED,
    AcquisitionLock,
    InFlightRecords,
    UnheldRecords,
)

TOPIC_ID = bytes(range(16))
VERSIONS = range(2)
KEYS = [SharePartitionKey("g", TOPIC_ID, index) for index in range(3)]


def described() -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_id=TOPIC_ID,
        topic_name="t",
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(partition_index=key.partition)
            for key in KEYS
        ],
    )


def exchanged(
    topic: DescribeShareGroupOffsetsResponseTopic, version: int
) -> dict[SharePartitionKey, InFlightRecords]:
    group = DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[topic])
    data = DescribeShareGroupOffsetsResponse(groups=[group]).encode(version)
    return dict(locks_in(DescribeShareGroupOffsetsResponse.decode(data, version)))


@pytest.mark.parametrize("version", VERSIONS)
def test_locks_survive_the_exchange(version: int) -> None:
    locks = (AcquisitionLock(3, 5, "ann", 2, 700), AcquisitionLock(7, 7, "bob", 1, -1))
    held = {KEYS[0]: InFlightRecords(4, locks, 9, UnheldRecords(1, 2, 3, 4)),
            KEYS[1]: NOTHING_LOADED}  # fmt: skip
    topic = described()
    add_locks("g", [topic], held)
    assert exchanged(topic, version) == held


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_that_does_not_know_locks_leaves_them_unknown(version: int) -> None:
    assert exchanged(described(), version) == {}


def test_the_locks_of_a_group_are_bounded_and_the_others_counted() -> None:
    lock = AcquisitionLock(0, 0, "ann", 1, 700)
    many = InFlightRecords(600, (lock,) * 600, 0, UnheldRecords(0, 0, 0, 0))
    topic = described()
    add_locks("g", [topic], dict.fromkeys(KEYS, many))
    assert [len(each.locks) for each in topic.partitions] == [600, MAX_LOCKS_PER_GROUP - 600, 0]
    assert [each.omitted_locks for each in topic.partitions] == [0, 200, 600]
    assert [each.acquired_records for each in topic.partitions] == [600] * 3


def test_the_question_to_a_leader_names_its_partitions() -> None:
    request = request_of("g", KEYS, lambda _: "t")
    read = DescribeShareGroupOffsetsRequest.decode(request.encode(1), 1)
    assert (read.include_locks, read.locks_only) == (True, True)
    (group,) = read.groups
    assert group.topics is not None
    assert [(each.topic_name, each.partitions) for each in group.topics] == [("t", [0, 1, 2])]
