"""Committed offsets as Kafka's own tools see, print, reset and delete them."""

import json
from collections.abc import Callable, Iterator

import pytest

from headrace.coordinator.common.partition_of_key import partition_for
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from support.wire.connection import Wire
from support.wire.groups import wait_for_coordinator
from support.wire.topics import create_topic

CONSUME = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50
LATEST = -1
Tool = Callable[..., str]


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    with Wire(bootstrap) as connection:
        yield connection


@pytest.fixture
def topic(wire: Wire, name: str) -> str:
    create_topic(wire, name, partitions=2)
    return name


@pytest.fixture
def group(wire: Wire, name: str) -> str:
    """Its name is the topic's."""
    wait_for_coordinator(wire, name)
    return name


def commit(
    wire: Wire, group: str, topic: str, offset: int, *, version: int = 9, retention_ms: int = -1
) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=1, committed_offset=offset, committed_metadata="text"
    )
    request = OffsetCommitRequest(
        group_id=group,
        retention_time_ms=retention_ms,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    (answer,) = wire.call(request, OffsetCommitResponse, version).topics
    assert answer.partitions[0].error_code == ErrorCode.NONE


def records_in(wire: Wire, partition: int) -> int:
    """Of __consumer_offsets."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=OFFSETS_TOPIC, partitions=[asked])])
    (answer,) = wire.call(request, ListOffsetsResponse).topics
    return answer.partitions[0].offset


def test_the_formatter_prints_offsets(tool: Tool, wire: Wire, group: str, topic: str) -> None:
    commit(wire, group, topic, 5)
    commit(wire, group, topic, 6, version=2, retention_ms=3_600_000)
    partition = partition_for(group, OFFSETS_PARTITIONS)
    out = tool(
        CONSUME,
        *("--topic", OFFSETS_TOPIC, "--formatter", FORMATTER),
        *("--partition", str(partition), "--offset", "earliest"),
        *("--max-messages", str(records_in(wire, partition))),
    )
    # One object after the other, without anything between them.
    printed = [json.loads(one) for one in out.strip().replace('}{"key"', '}\n{"key"').split("\n")]
    mine = [one for one in printed if one["key"]["data"]["group"] == group]
    assert [one["key"] for one in mine] == [
        {"type": 1, "data": {"group": group, "topic": topic, "partition": 1}}
    ] * 2
    assert [one["value"]["version"] for one in mine] == [4, 1]
    assert [one["value"]["data"]["offset"] for one in mine] == [5, 6]
    assert mine[0]["value"]["data"]["metadata"] == "text"
    times = mine[1]["value"]["data"]
    assert times["expireTimestamp"] == times["commitTimestamp"] + 3_600_000


def test_a_group_is_described_reset_and_deleted(
    tool: Tool, wire: Wire, group: str, topic: str
) -> None:
    commit(wire, group, topic, 0)
    rows = tool(GROUPS, "--describe", "--group", group).splitlines()
    assert [group, topic, "1", "0", "0", "0"] in [row.split()[:6] for row in rows]

    target = ("--group", group, "--topic", topic)
    reset = tool(GROUPS, "--reset-offsets", *target, "--to-earliest", "--execute")
    assert [group, topic, "0", "0"] in [row.split() for row in reset.splitlines()]

    deleted = tool(GROUPS, "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert [topic, "0", "Successful"] in [row.split() for row in deleted.splitlines()]

    assert group in tool(GROUPS, "--list").split()
    assert "was successful" in tool(GROUPS, "--delete", "--group", group)
    assert group not in tool(GROUPS, "--list").split()
