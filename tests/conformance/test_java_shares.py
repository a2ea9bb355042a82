"""Share groups as Kafka's own tools read, list, describe, reset and delete them."""

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from support.clients.java import run
from support.wire.connection import Wire
from support.wire.topics import create_topic

CONFIGS = "kafka.admin.ConfigCommand"
CONSUME = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
READ_TOPIC = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
SHARES = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
FORMATTER = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
DEADLINE_S = 60.0
RECORDS = 20
VALUES = [str(number) for number in range(RECORDS)]
Tool = Callable[..., str]


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    with Wire(bootstrap) as wire:
        create_topic(wire, name)
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in VALUES:
        producer.produce(name, value.encode(), partition=0)
    assert producer.flush(DEADLINE_S) == 0
    return name


@pytest.fixture
def group(tool: Tool, name: str) -> str:
    """A share group that starts with the first record."""
    group = f"{name}-share"
    entity = ("--entity-type", "groups", "--entity-name", group)
    tool(CONFIGS, "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest")
    assert "share.auto.offset.reset=earliest" in tool(CONFIGS, "--describe", *entity)
    return group


def read(tool: Tool, topic: str, group: str, count: int, *more: str) -> list[str]:
    counted = ("--max-messages", str(count), "--timeout-ms", "30000")
    return tool(CONSUME, "--topic", topic, "--group", group, *counted, *more).split()


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines() if line.strip()]


def lag_of(tool: Tool, group: str) -> int:
    """How many records are not done. The start offset may be behind: it is stored with the next."""
    (row,) = [row for row in rows(tool(SHARES, "--describe", "--group", group)) if row[0] == group]
    return int(row[4])


def test_the_console_share_consumer_reads_a_queue(tool: Tool, topic: str, group: str) -> None:
    first = read(tool, topic, group, RECORDS // 2)
    second = read(tool, topic, group, RECORDS - len(first))
    assert first + second == VALUES
    assert lag_of(tool, group) == 0


def test_released_records_are_redelivered_and_rejected_ones_are_not(
    tool: Tool, topic: str, group: str
) -> None:
    assert read(tool, topic, group, RECORDS, "--release") == VALUES
    assert read(tool, topic, group, RECORDS, "--reject") == VALUES
    assert lag_of(tool, group) == 0


def test_a_share_group_is_listed_described_reset_and_deleted(
    tool: Tool, topic: str, group: str
) -> None:
    read(tool, topic, group, RECORDS)
    assert group in tool(SHARES, "--list").split()
    assert [group, "Empty"] in rows(tool(SHARES, "--list", "--state"))
    (mine,) = [row for row in rows(tool(ALL_GROUPS, "--list", "--share")) if row[0] == group]
    assert mine[1:] == ["Share", "share"]
    (state,) = [
        row
        for row in rows(tool(SHARES, "--describe", "--group", group, "--state"))
        if row[0] == group
    ]
    assert "Empty" in state

    target = ("--reset-offsets", "--group", group, "--topic", topic)
    tool(SHARES, *target, "--to-earliest", "--dry-run")
    assert lag_of(tool, group) == 0
    tool(SHARES, *target, "--to-earliest", "--execute")
    assert lag_of(tool, group) == RECORDS
    assert read(tool, topic, group, RECORDS) == VALUES

    assert "Successful" in tool(SHARES, "--delete-offsets", "--group", group, "--topic", topic)
    tool(SHARES, "--delete", "--group", group)
    assert group not in tool(SHARES, "--list").split()
    assert "GroupIdNotFoundException" in tool(SHARES, "--describe", "--group", group)


def test_the_share_performance_test_reads_everything(tool: Tool, topic: str, group: str) -> None:
    everything = ("--num-records", str(RECORDS), "--timeout", "60000", "--hide-header")
    out = tool(PERFORMANCE, "--topic", topic, "--group", group, *everything)
    (measured,) = [line.split(", ") for line in out.splitlines() if line.count(", ") > 5]
    assert str(RECORDS) in measured


def test_the_verifiable_share_consumer_acknowledges_everything(
    bootstrap: str, topic: str, group: str
) -> None:
    out = run(
        VERIFIABLE,
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group),
        *("--max-messages", str(RECORDS), "--acknowledgement-mode", "sync"),
    )
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    acknowledged = [one for one in events if one["name"] == "offsets_acknowledged"]
    assert sum(one["count"] for one in acknowledged) == RECORDS
    assert all(one["success"] for one in acknowledged)


def test_the_formatter_prints_the_state_of_queues(tool: Tool, topic: str, group: str) -> None:
    read(tool, topic, group, RECORDS)
    out = tool(
        READ_TOPIC,
        *("--topic", "__share_group_state", "--from-beginning", "--timeout-ms", "5000"),
        *("--formatter", FORMATTER),
    )
    printed = [json.loads(one) for one in out.strip().replace('}{"key"', '}\n{"key"').split("\n")]
    mine = [one["value"]["data"] for one in printed if one["key"]["data"]["groupId"] == group]
    assert mine[-1]["startOffset"] == RECORDS or mine[-1]["stateBatches"]
