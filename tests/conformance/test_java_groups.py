"""Consumer groups as Kafka's own tools join, list, describe, reset and delete them."""

import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from support.clients.java import run
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.topics import create_topic

CONSUME = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
RESETTER = "org.apache.kafka.tools.StreamsResetter"
DEADLINE_S = 60.0
PARTITIONS = 2
RECORDS = 10  # in each partition
PROTOCOLS = ["classic", "consumer"]
Tool = Callable[..., str]
Row = list[str]


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """Ten records in each of two partitions, a minute apart, the last one of now."""
    with Wire(bootstrap) as wire:
        create_topic(wire, name, PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap})
    now_ms = int(time.time() * 1000)
    for partition in range(PARTITIONS):
        for number in range(RECORDS):
            stamp = now_ms - (RECORDS - 1 - number) * 60_000
            producer.produce(name, b"%d" % number, partition=partition, timestamp=stamp)
    assert producer.flush(DEADLINE_S) == 0
    return name


@pytest.fixture
def group(name: str) -> str:
    return f"{name}-group"


def member(bootstrap: str, group: str, topic: str, protocol: str) -> Consumer:
    """A member that has its partitions."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
    )
    consumer.subscribe([topic])

    def assigned() -> bool:
        consumer.poll(0.1)
        return len(consumer.assignment()) == PARTITIONS

    wait_for(assigned, "the member has its partitions", deadline_s=DEADLINE_S)
    return consumer


@pytest.fixture(params=PROTOCOLS)
def live_group(
    request: pytest.FixtureRequest, bootstrap: str, group: str, topic: str
) -> Iterator[str]:
    """A group with one member, which has committed 3 and 4."""
    consumer = member(bootstrap, group, topic, request.param)
    places = [TopicPartition(topic, partition, 3 + partition) for partition in range(PARTITIONS)]
    consumer.commit(offsets=places, asynchronous=False)
    yield group
    consumer.close()


@pytest.fixture
def stored(bootstrap: str, group: str, topic: str) -> str:
    """A group without members, which has committed 5 and 5."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, partition, 5) for partition in range(PARTITIONS)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    return group


def rows(out: str) -> list[Row]:
    return [line.split() for line in out.splitlines() if line.strip()]


def offsets(tool: Tool, group: str) -> list[Row]:
    """Partition, committed offset, end and lag of a group, as the tool says."""
    described = rows(tool(GROUPS, "--describe", "--group", group))
    return sorted(row[2:6] for row in described if row[0] == group)


def test_a_live_group_is_listed(
    tool: Tool, live_group: str, request: pytest.FixtureRequest
) -> None:
    protocol = request.node.callspec.params["live_group"]
    assert live_group in tool(GROUPS, "--list").split()
    assert [live_group, "Stable"] in rows(tool(GROUPS, "--list", "--state", "Stable"))
    assert live_group not in tool(GROUPS, "--list", "--state", "Empty").split()
    listed = rows(tool(GROUPS, "--list", "--type", protocol))
    assert [live_group, protocol.capitalize()] in listed
    (mine,) = [row for row in rows(tool(ALL_GROUPS, "--list")) if row[0] == live_group]
    assert mine[1:] == [protocol.capitalize(), "consumer"]


def test_a_live_group_is_described(tool: Tool, live_group: str, topic: str) -> None:
    assert offsets(tool, live_group) == [["0", "3", "10", "7"], ["1", "4", "10", "6"]]

    (state,) = [
        row
        for row in rows(tool(GROUPS, "--describe", "--group", live_group, "--state"))
        if row[0] == live_group
    ]
    assert "Stable" in state
    assert state[-1] == "1"

    out = tool(GROUPS, "--describe", "--group", live_group, "--members", "--verbose")
    (described,) = [row for row in rows(out) if row[0] == live_group]
    assert str(PARTITIONS) in described
    assert f"{topic}:0,1" in "".join(described)


def test_a_live_group_cannot_be_reset_or_deleted(tool: Tool, live_group: str, topic: str) -> None:
    target = ("--group", live_group, "--topic", topic)
    out = tool(GROUPS, "--reset-offsets", *target, "--to-earliest", "--execute")
    assert "inactive" in out
    assert "GroupNotEmptyException" in tool(GROUPS, "--delete", "--group", live_group)
    out = tool(GROUPS, "--delete-offsets", "--group", live_group, "--topic", topic)
    assert "SubscribedToTopic" in out
    assert offsets(tool, live_group) == [["0", "3", "10", "7"], ["1", "4", "10", "6"]]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("--to-earliest", 0),
        ("--to-latest", 10),
        ("--to-current", 5),
        ("--to-offset 7", 7),
        ("--to-offset 700", 10),
        ("--shift-by -2", 3),
        ("--shift-by 100", 10),
        ("--by-duration PT2M30S", 7),
        ("--to-datetime 2020-01-01T00:00:00.000", 0),
    ],
)
def test_offsets_are_reset(tool: Tool, stored: str, topic: str, how: str, expected: int) -> None:
    target = ("--reset-offsets", "--group", stored, "--topic", topic)
    planned = rows(tool(GROUPS, *target, *how.split(), "--dry-run"))
    new = [[stored, topic, str(partition), str(expected)] for partition in range(PARTITIONS)]
    assert sorted(row for row in planned if row[0] == stored) == new
    done = rows(tool(GROUPS, *target, *how.split(), "--execute"))
    assert sorted(row for row in done if row[0] == stored) == new
    assert [row[1] for row in offsets(tool, stored)] == [str(expected)] * PARTITIONS


def test_a_reset_is_exported_and_read_from_a_file(
    tool: Tool, stored: str, topic: str, tmp_path: Path
) -> None:
    target = ("--reset-offsets", "--group", stored)
    one = (*target, "--topic", f"{topic}:1", "--to-offset", "8")
    exported = tool(GROUPS, *one, "--export", "--dry-run")
    (row,) = [row for row in csv.reader(io.StringIO(exported)) if row and topic in row]
    assert row == [topic, "1", "8"]
    assert [row[1] for row in offsets(tool, stored)] == ["5", "5"]

    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,2\n{topic},1,8\n")
    tool(GROUPS, *target, "--from-file", str(plan), "--execute")
    assert [row[1] for row in offsets(tool, stored)] == ["2", "8"]


def test_offsets_and_groups_are_deleted(tool: Tool, stored: str, topic: str) -> None:
    deleted = tool(GROUPS, "--delete-offsets", "--group", stored, "--topic", f"{topic}:0")
    assert [topic, "0", "Successful"] in rows(deleted)
    assert [row[0] for row in offsets(tool, stored)] == ["1"]
    assert "was successful" in tool(GROUPS, "--delete", "--group", stored)
    assert "GroupIdNotFoundException" in tool(GROUPS, "--describe", "--group", stored)
    assert "GroupIdNotFoundException" in tool(GROUPS, "--delete", "--group", stored)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_console_consumer_resumes_at_its_groups_offsets(
    tool: Tool, topic: str, group: str, protocol: str
) -> None:
    join = ("--topic", topic, "--group", group, "--from-beginning")
    how = ("--command-property", f"group.protocol={protocol}")
    read = tool(CONSUME, *join, *how, "--max-messages", "12").split()
    read += tool(CONSUME, *join, *how, "--max-messages", "8").split()
    assert sorted(map(int, read)) == sorted([*range(RECORDS)] * PARTITIONS)
    assert [row[3] for row in offsets(tool, group)] == ["0", "0"]


def test_the_consumer_performance_test_reads_in_a_group(tool: Tool, topic: str, group: str) -> None:
    everything = ("--num-records", str(PARTITIONS * RECORDS), "--timeout", "60000")
    out = tool(PERFORMANCE, "--topic", topic, "--group", group, *everything, "--hide-header")
    (measured,) = [line.split(", ") for line in out.splitlines() if line.count(", ") > 5]
    assert int(measured[4]) == PARTITIONS * RECORDS


def events(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_verifiable_consumer_reads_the_verifiable_producers_records(
    bootstrap: str, name: str, protocol: str
) -> None:
    with Wire(bootstrap) as wire:
        create_topic(wire, name, PARTITIONS)
    sent = events(
        run(
            "org.apache.kafka.tools.VerifiableProducer",
            *("--bootstrap-server", bootstrap, "--topic", name, "--max-messages", "200"),
        )
    )
    acked = [one for one in sent if one["name"] == "producer_send_success"]
    assert len(acked) == 200
    seen = events(
        run(
            "org.apache.kafka.tools.VerifiableConsumer",
            *("--bootstrap-server", bootstrap, "--topic", name, "--max-messages", "200"),
            *("--group-id", f"{name}-group", "--group-protocol", protocol),
            *("--reset-policy", "earliest", "--verbose"),
        )
    )
    values = [one["value"] for one in seen if one["name"] == "record_data"]
    assert sorted(map(int, map(str, values))) == list(range(200))
    commits = [one for one in seen if one["name"] == "offsets_committed"]
    assert commits
    assert all(one["success"] for one in commits)


def test_the_streams_resetter_resets_an_application(tool: Tool, stored: str, topic: str) -> None:
    out = tool(RESETTER, "--application-id", stored, "--input-topics", topic, "--to-earliest")
    assert topic in out
    assert [row[1] for row in offsets(tool, stored)] == ["0", "0"]


def test_the_formatter_prints_the_members_of_groups(
    bootstrap: str, tool: Tool, topic: str, group: str
) -> None:
    member(bootstrap, group, topic, "classic").close()
    out = tool(
        CONSUME,
        *("--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "5000"),
        *("--formatter", "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter"),
    )
    printed = [json.loads(one) for one in out.strip().replace('}{"key"', '}\n{"key"').split("\n")]
    mine = [one["value"] for one in printed if one["key"]["data"]["group"] == group]
    generations = [one["data"]["generation"] for one in mine]
    assert generations == sorted(generations)
    assert any(len(one["data"]["members"]) == 1 for one in mine)
    assert mine[-1]["data"]["members"] == []
