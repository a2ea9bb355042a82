"""`headrace group` and `consume -g` against a real broker."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from headrace.testing import Broker
from support.cli.command import Cli
from support.waiting import wait_for

DEADLINE_S = 60.0
NewName = Callable[[], str]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker on which a group's first member need not wait for others."""
    with Broker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def cli(servers: str, tmp_path: Path) -> Cli:
    return Cli(servers, tmp_path)


@pytest.fixture
def filled(cli: Cli, new_name: NewName) -> str:
    """A topic of two partitions with five records in each."""
    name = new_name()
    cli.ok("topic", "create", name, "-p", "2")
    values = "".join(f"{n}\n" for n in range(10))
    cli.ok("produce", name, "--partitioner", "round-robin", stdin=values)
    return name


def offsets(cli: Cli, group: str) -> list[tuple[int, int, int]]:
    """Partition, committed offset and lag."""
    (facts,) = json.loads(cli.ok("group", "describe", group, "--format", "json"))
    return [(each["partition"], each["committed"], each["lag"]) for each in facts["partitions"]]


def test_a_group_reads_every_record_once_and_resumes(
    cli: Cli, filled: str, new_name: NewName
) -> None:
    group = new_name()
    assert sorted(cli.ok("consume", filled, "-g", group, "-e").split()) == sorted("0123456789")
    assert offsets(cli, group) == [(0, 5, 0), (1, 5, 0)]
    cli.ok("produce", filled, "-p", "1", "-v", "more")
    assert offsets(cli, group) == [(0, 5, 0), (1, 5, 1)]
    assert cli.ok("consume", filled, "-g", group, "-e") == "more\n"


def test_a_count_commits_only_the_records_shown(cli: Cli, filled: str, new_name: NewName) -> None:
    group = new_name()
    first = cli.ok("consume", filled, "-g", group, "-c", "3", "-e").split()
    assert len(first) == 3
    assert sum(committed or 0 for _, committed, _ in offsets(cli, group)) == 3
    rest = cli.ok("consume", filled, "-g", group, "-e").split()
    assert sorted(first + rest) == sorted("0123456789")


def test_groups_are_listed_described_and_deleted(cli: Cli, filled: str, new_name: NewName) -> None:
    group = new_name()
    cli.ok("consume", filled, "-g", group, "-e")
    assert re.search(rf"^{group} +classic +Empty", cli.ok("group", "list"), re.MULTILINE)
    assert group not in cli.ok("group", "list", "--state", "Stable")
    described = cli.ok("group", "describe", group)
    assert re.search(r"^TOTAL LAG +0$", described, re.MULTILINE)
    assert re.search(rf"^{filled} +1 +5 +5 +0 ", described, re.MULTILINE)
    ended = cli("group", "delete", group, f"{group}-none", "--execute")
    assert ended.code == 3
    assert ended.stdout == f"deleted group {group}\n"
    gone = cli("group", "describe", group)
    assert gone.code == 4
    assert cli("group", "delete", group).code == 4


def test_a_group_is_moved_only_with_execute(cli: Cli, filled: str, new_name: NewName) -> None:
    group = new_name()
    cli.ok("consume", filled, "-g", group, "-e")
    shown = cli("group", "seek", group, "--to", "beginning")
    assert shown.code == 0
    assert "--execute" in shown.stderr
    assert re.search(rf"^{filled} +0 +5 +0 +0 +5$", shown.stdout, re.MULTILINE)
    assert offsets(cli, group) == [(0, 5, 0), (1, 5, 0)]
    cli.ok("group", "seek", group, "--to", "beginning", "--execute")
    assert offsets(cli, group) == [(0, 0, 5), (1, 0, 5)]
    assert len(cli.ok("consume", filled, "-g", group, "-e").split()) == 10


def test_a_group_is_moved_to_offsets_times_other_groups_and_files(
    cli: Cli, filled: str, new_name: NewName, tmp_path: Path
) -> None:
    group, other = new_name(), new_name()
    at = ("--topic", filled, "--execute")
    cli.ok("group", "seek", group, "--to", "3", *at)
    assert offsets(cli, group) == [(0, 3, 2), (1, 3, 2)]
    cli.ok("group", "seek", group, "--shift", "-2", "--execute")
    assert offsets(cli, group) == [(0, 1, 4), (1, 1, 4)]
    cli.ok("group", "seek", group, "--to", "-2", "--topic", f"{filled}:1", "--execute")
    assert offsets(cli, group) == [(0, 1, 4), (1, 3, 2)]
    cli.ok("group", "seek", other, "--to-group", group, "--execute")
    assert offsets(cli, other) == [(0, 1, 4), (1, 3, 2)]
    cli.ok("group", "seek", other, "--to", "s@now", *at)
    assert offsets(cli, other) == [(0, 5, 0), (1, 5, 0)]
    file = tmp_path / "offsets.csv"
    file.write_text(f"{filled},0,2\n{filled},1,99\n")
    moved = cli("group", "seek", other, "--to-file", str(file), "--execute")
    assert "(0 to 5); it becomes 5" in moved.stderr
    assert offsets(cli, other) == [(0, 2, 3), (1, 5, 0)]


def test_a_groups_offsets_in_one_topic_are_deleted(
    cli: Cli, filled: str, new_name: NewName
) -> None:
    group = new_name()
    cli.ok("group", "seek", group, "--to", "end", "--topic", filled, "--execute")
    assert cli("group", "delete", group, "other", "--topic", filled).code == 2
    cli.ok("group", "delete", group, "--topic", f"{filled}:1", "--execute")
    assert offsets(cli, group) == [(0, 5, 0)]
    assert cli("group", "delete", group, "--topic", f"{filled}:1").code == 4


def test_a_member_of_the_newer_protocol_reads_to_the_end(
    cli: Cli, filled: str, new_name: NewName
) -> None:
    group = new_name()
    words = ("consume", filled, "-g", group, "-e", "-X", "group.protocol=consumer")
    assert sorted(cli.ok(*words).split()) == sorted("0123456789")
    assert cli.ok(*words) == ""
    (facts,) = json.loads(cli.ok("group", "describe", group, "--format", "json"))
    assert (facts["type"], facts["total_lag"]) == ("consumer", 0)


def test_an_active_group_is_described_with_members_and_cannot_be_reset(
    cli: Cli, filled: str, new_name: NewName, servers: str
) -> None:
    group = new_name()
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": group, "client.id": "member-of-test"}
    )
    try:
        consumer.subscribe([filled])
        wait_for(
            lambda: consumer.poll(0.1) or consumer.assignment(),
            "it has partitions",
            deadline_s=DEADLINE_S,
        )
        described = cli.ok("group", "describe", group)
        assert re.search(r"^STATE +Stable$", described, re.MULTILINE)
        assert "member-of-test" in described
        refused = cli("group", "seek", group, "--to", "beginning", "--topic", filled, "--execute")
        assert refused.code == 1
        assert "stop its consumers" in refused.stderr
        busy = cli("group", "delete", group, "--execute")
        assert busy.code == 1
        assert "NON_EMPTY_GROUP" in busy.stderr
    finally:
        consumer.close()


def test_a_command_that_fails_leaves_its_record_uncommitted(cli: Cli, new_name: NewName) -> None:
    topic, group = new_name(), new_name()
    cli.ok("topic", "create", topic)
    cli.ok("produce", topic, stdin="fine\nbad\nlater\n")
    words = ("consume", topic, "-g", group, "-e", "--exec")
    assert cli(*words, 'read v; test "$v" != bad').code == 1
    assert offsets(cli, group) == [(0, 1, 2)]
    cli.ok("topic", "create", f"{topic}-dead")
    ended = cli(*words, 'read v; test "$v" != bad', "--dead-letter", f"{topic}-dead")
    assert ended.code == 3
    assert offsets(cli, group) == [(0, 3, 0)]
    assert cli.ok("consume", f"{topic}-dead", "-e") == "bad\n"


def test_mistakes_about_groups_are_explained(cli: Cli, new_name: NewName) -> None:
    assert cli("group", "seek", new_name(), "--to", "end").code == 2
    assert cli("group", "seek", new_name()).code == 2
    missing = cli("group", "seek", new_name(), "--to-group", new_name())
    assert missing.code == 4


def test_lag_is_shown_in_records_and_in_seconds(
    cli: Cli, servers: str, filled: str, new_name: NewName
) -> None:
    group = new_name()
    cli.ok("consume", filled, "-g", group, "-e")
    (facts,) = json.loads(cli.ok("group", "describe", group, "--format", "json"))
    assert (facts["total_lag"], facts["lag_seconds"]) == (0, 0)
    hour_ago_ms = int(time.time() * 1000) - 3_600_000
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(filled, b"late", partition=1, timestamp=hour_ago_ms)
    assert producer.flush(DEADLINE_S) == 0
    (facts,) = json.loads(cli.ok("group", "describe", group, "--format", "json"))
    assert facts["total_lag"] == 1
    assert facts["lag_seconds"] == pytest.approx(3600, abs=DEADLINE_S)
    assert [each["lag_seconds"] for each in facts["partitions"]] == [0, facts["lag_seconds"]]
    listed = json.loads(cli.ok("group", "list", "--lag", "--format", "json"))
    (fact,) = (each for each in listed if each["group"] == group)
    assert fact["total_lag"] == 1
    assert fact["lag_seconds"] == pytest.approx(3600, abs=DEADLINE_S)
    assert "lag_seconds" not in json.loads(cli.ok("group", "list", "--format", "json"))[0]
