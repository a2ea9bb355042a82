"""Commands that delete, move or stop something require --execute or a confirmation."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import Broker
from support.cli.command import Cli, Ended
from support.cli.terminal import Terminal


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def cli(broker: Broker, tmp_path: Path) -> Cli:
    return Cli(broker.bootstrap_servers, tmp_path)


@pytest.fixture
def filled(cli: Cli, request: pytest.FixtureRequest) -> str:
    """A topic of 10 records, and a group of the same name that has read 4 of them."""
    name = f"t{abs(hash(request.node.name))}"
    cli.ok("topic", "create", name)
    cli.ok("produce", name, stdin="".join(f"{n}\n" for n in range(10)))
    cli.ok("group", "seek", name, "--to", "4", "--topic", name, "--execute")
    return name


def state_of(cli: Cli, name: str) -> tuple[str, object]:
    groups = cli("group", "describe", name, "--format", "json")
    return cli.ok("consume", name, "-e"), _without_times(groups.facts)


def _without_times(groups: object) -> object:
    """The lag in seconds grows by itself."""
    return re.sub(r'"lag_seconds": [^,}]+', '"lag_seconds": 0', json.dumps(groups))


@pytest.mark.parametrize(
    ("words", "action"),
    [
        (("topic", "delete", "NAME"), "delete topic NAME with all records"),
        (("topic", "trim", "NAME", "--before", "3"), "delete the records of NAME before 3"),
        (("group", "delete", "NAME"), "delete group NAME with all offsets"),
        (("group", "delete", "NAME", "-t", "NAME"), "delete 1 offset of group 'NAME'"),
        (("group", "seek", "NAME", "--to", "end"), "move group 'NAME'"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_without_a_terminal_the_plan_is_shown_and_nothing_changes(
    cli: Cli, filled: str, words: tuple[str, ...], action: str
) -> None:
    words = tuple(filled if word == "NAME" else word for word in words)
    before = state_of(cli, filled)
    shown = cli(*words)
    assert shown.code == 0
    assert filled in shown.stdout
    said = f"Nothing was changed. Add --execute to {action.replace('NAME', filled)}."
    assert said in shown.stderr
    assert state_of(cli, filled) == before
    plan = cli(*words, "--format", "json")
    assert plan.code == 0
    assert filled in json.dumps(plan.facts)
    assert state_of(cli, filled) == before
    done = cli(*words, "--yes")
    assert done.code == 0, done
    assert "--yes is deprecated; use --execute" in done.stderr
    if words[:2] != ("topic", "delete"):
        assert state_or_gone(cli, filled) != before


def state_or_gone(cli: Cli, name: str) -> tuple[str, Ended | object]:
    groups = cli("group", "describe", name, "--format", "json")
    return cli.ok("consume", name, "-e"), _without_times(
        groups.facts
    ) if groups.code == 0 else groups


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_a_terminal_shows_the_plan_and_asks_for_confirmation(
    broker: Broker, cli: Cli, filled: str, answer: bytes, code: int
) -> None:
    words = ("topic", "delete", f"{filled[:-1]}?", "-b", broker.bootstrap_servers)
    terminal = Terminal([sys.executable, "-m", "headrace", *words])
    try:
        terminal.wait_for(f"Delete topic {filled} with all records? [y/N]")
        assert "RECORDS (MAX)" in terminal.text
        terminal.type(answer)
        assert terminal.ended() == code
        assert ("Nothing was changed." in terminal.text) == (code == 1)
    finally:
        terminal.close()
    assert (filled in cli.ok("topic", "list")) == (code == 1)


def test_topics_are_described_and_deleted_by_pattern(cli: Cli) -> None:
    cli.ok("topic", "create", "glob-a", "glob-b", "other")
    facts = cli("topic", "describe", "glob-*", "--format", "json").facts
    assert isinstance(facts, list)
    assert [each["name"] for each in facts] == ["glob-a", "glob-b"]
    assert cli("topic", "describe", "nothing-*").code == 4
    plan = cli("topic", "delete", "glob-?", "absent", "--format", "json")
    assert plan.code == 3
    assert [each["name"] for each in json.loads(plan.stdout)] == ["glob-a", "glob-b"]
    assert "no topic 'absent'" in plan.stderr
    assert "to delete 2 topics with all records" in plan.stderr
    done = cli.ok("topic", "delete", "glob-?", "--execute")
    assert done == "deleted topic glob-a\ndeleted topic glob-b\n"
    assert "other" in cli.ok("topic", "list")
    assert cli("topic", "delete", "*", "--format", "json").code == 0
    assert "__consumer_offsets" not in cli("topic", "delete", "*").stdout


def test_an_out_of_range_offset_is_reported_with_the_partitions_range(
    cli: Cli, filled: str
) -> None:
    said = f"offset 99999 is outside the range of {filled}-0 (0 to 10); it becomes 10"
    shown = cli("group", "seek", filled, "--to", "99999", "--format", "json")
    assert said in shown.stderr
    assert isinstance(shown.facts, dict)
    (move,) = shown.facts["offsets"]
    assert (move["before"], move["after"], move["requested"]) == (4, 10, 99999)
    assert (move["clamped"], move["start"], move["end"]) == (True, 0, 10)
    done = cli("group", "seek", filled, "--to", "99999", "--execute")
    assert said in done.stderr
    assert done.stdout.splitlines()[0].split() == [
        "TOPIC",
        "PARTITION",
        "BEFORE",
        "AFTER",
        "START",
        "END",
    ]
    inside = cli("group", "seek", filled, "--to", "7", "--execute")
    assert "outside" not in inside.stderr
    read = cli("consume", filled, "-o", "99999", "-e")
    assert f"offset 99999 is outside the range of {filled}-0 (0 to 10)" in read.stderr


def test_an_unknown_topic_setting_is_reported_with_a_similar_one(cli: Cli, filled: str) -> None:
    for words in (
        ("topic", "create", "fresh", "-c", "retenton.ms=5"),
        ("topic", "alter", filled, "--set", "retenton.ms=5"),
        ("config", "set", "topic", filled, "retenton.ms=5"),
    ):
        ended = cli(*words)
        assert ended.code == 1
        assert "no topic setting 'retenton.ms'. Did you mean 'retention.ms'?" in ended.stderr
        assert "INVALID_CONFIG" in ended.stderr
