"""`headrace dlq`: list, show, replay."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.dead_letters.dead_letter_writer import DeadLetterWriter
from headrace.pipeline.dead_letters.headers import Facts, letter_headers
from headrace.pipeline.producer import ProducerSettings
from headrace.pipeline.sinks.table_sink import BatchInfo
from headrace.testing import Broker
from headrace.testing.helper import Headrace
from support.cli.command import Cli
from support.pipelines.staged_records import Bad, stage


@pytest.fixture(scope="module")
def helper() -> Iterator[Headrace]:
    with Broker() as broker:
        yield broker.headrace


@pytest.fixture
def cli(helper: Headrace, tmp_path: Path) -> Cli:
    return Cli(helper.bootstrap_servers, tmp_path)


@pytest.fixture
def source(helper: Headrace) -> str:
    return helper.create_topic()


@pytest.fixture
def topic(helper: Headrace, source: str, tmp_path: Path) -> str:
    """Three dead letters with two different errors."""
    topic = f"{source}.dlq"
    bad = [
        Bad(source, 0, 5, b"{oops", message="line 1: expected '\"'"),
        Bad(source, 0, 6, b"{again", b"k", (("trace", b"1"),), message="line 7: expected ':'"),
        Bad(source, 0, 9, b"{}", error="positive", message="amount > 0"),
    ]
    batch = BatchInfo("orders", 3, (OffsetRange(source, 0, 0, 10),), schema_version=2)
    settings = ProducerSettings(helper.bootstrap_servers)
    with DeadLetterWriter(topic, settings, f"orders-{source}", tmp_path) as letters:
        letters.write(batch, [stage(tmp_path, bad)])
    return topic


def facts(cli: Cli, *words: str) -> Any:
    ended = cli("dlq", *words, "--format", "json")
    assert ended.code == 0, ended
    return ended.facts


def test_list_groups_by_error_and_message(cli: Cli, source: str, topic: str) -> None:
    first, second = facts(cli, "list", topic)
    assert (first["error"], first["count"], first["replayed"]) == ("ParseError", 2, 0)
    assert first["message"] == "line #: expected …"
    assert (first["source"], first["pipeline"]) == (source, "orders")
    assert [sample["value"] for sample in first["samples"]] == ["{oops"]
    assert (second["error"], second["count"]) == ("positive", 1)
    shown = cli("dlq", "list", topic)
    assert "ParseError" in shown.stdout
    assert "{oops" in shown.stdout


def test_show_prints_every_detail_of_the_selected_dead_letters(
    cli: Cli, source: str, topic: str
) -> None:
    (letter,) = facts(cli, "show", topic, "--where", "error = ParseError and source.offset > 5")
    assert (letter["key"], letter["value"], letter["headers"]) == ("k", "{again", ["trace=1"])
    assert letter["source"] == f"{source}-0 offset 6"
    assert (letter["batch"], letter["schema"], letter["attempts"]) == (3, 2, 0)
    assert letter["replayed"] is False
    assert "{again" in cli("dlq", "show", topic).stdout


def test_replay_prints_its_plan_and_runs_it_with_execute(
    helper: Headrace, cli: Cli, source: str, topic: str
) -> None:
    shown = cli("dlq", "replay", topic, "--where", "error = positive")
    assert shown.code == 0
    assert "--execute" in shown.stderr
    assert helper.consume(source) == []
    done = facts(cli, "replay", topic, "--where", "error = positive", "--execute")
    assert (done["executed"], done["sent"]) == (True, {source: 1})
    (record,) = helper.consume(source, 1, read_committed=True)
    assert record.value == b"{}"
    again = facts(cli, "replay", topic, "--where", "error = positive", "--execute")
    assert (again["replayed_before"], again["sent"]) == (1, {})
    (_, second) = facts(cli, "list", topic)
    assert second["replayed"] == 1


def test_a_dead_letter_from_a_file_shows_its_file_and_is_sent_to_the_given_topic(
    helper: Headrace, cli: Cli, source: str
) -> None:
    at = Facts("", -1, -1, 5, "NotJson", "m", "orders", 3, -1, file="/in/a.json", line=7)
    topic = helper.create_topic()
    helper.produce(topic, b"{oops", headers=letter_headers((), at))
    (group,) = facts(cli, "list", topic)
    assert (group["source"], group["samples"][0]["source"]) == ("/in", "/in/a.json line 7")
    (letter,) = facts(cli, "show", topic, "--where", "source.line = 7")
    assert letter["source"] == "/in/a.json line 7"
    stays = cli("dlq", "replay", topic)
    assert stays.code == 3
    assert "put it into a new file" in stays.stdout
    done = facts(cli, "replay", topic, "--to", source, "--execute")
    assert done["sent"] == {source: 1}


def test_the_output_of_a_fix_is_shown_as_it_is_written(
    cli: Cli, topic: str, tmp_path: Path
) -> None:
    fix = tmp_path / "fix.py"
    fix.write_text("def repair(record):\n    record.value = {'id': 1}\n    return record\n")
    words = ["replay", topic, "--where", "error = positive", "--python", f"{fix}:repair"]
    for more, result in (([], "goes"), (["--execute"], "sent")):
        (sample,) = facts(cli, *words, *more)["samples"]
        assert (sample["result"], sample["becomes"]) == (result, '{"id": 1}')


def test_a_fix_with_an_unwritable_value_is_rejected(cli: Cli, topic: str, tmp_path: Path) -> None:
    fix = tmp_path / "fix.py"
    fix.write_text("def repair(record):\n    record.value = {1, 2}\n    return record\n")
    ended = cli("dlq", "replay", topic, "--python", f"{fix}:repair")
    assert ended.code == 3
    assert "cannot be written as JSON" in ended.stdout


def test_a_fix_that_fails_for_some_records_returns_the_partial_exit_code(
    cli: Cli, topic: str, tmp_path: Path
) -> None:
    fix = tmp_path / "fix.py"
    fix.write_text("def repair(record):\n    record.json()\n    return record\n")
    ended = cli("dlq", "replay", topic, "--python", f"{fix}:repair")
    assert ended.code == 3
    assert "JSONDecodeError" in ended.stdout


@pytest.mark.parametrize("verb", ["list", "show", "replay"])
def test_a_topic_without_dead_letters_is_rejected(
    helper: Headrace, cli: Cli, source: str, verb: str
) -> None:
    helper.produce(source, b"an ordinary record")
    ended = cli("dlq", verb, source)
    assert ended.code == 1
    assert f"topic {source!r} is not a dead-letter topic" in ended.stderr


def test_replay_shows_a_sample_the_total_and_the_topic_name(
    helper: Headrace, cli: Cli, source: str
) -> None:
    topic = helper.create_topic()
    for offset in range(13):
        at = Facts(source, 0, offset, 5, "NotJson", "m", "orders", 3, -1)
        helper.produce(topic, b"{oops", headers=letter_headers((), at))
    shown = cli("dlq", "replay", topic)
    assert f"TO SEND TO {source}" in shown.stdout
    assert "10 of 13 shown" in shown.stdout
    assert "Nothing was changed. Add --execute to send 13 records again." in shown.stderr
    assert (
        "the first 10 dead letters shown; --limit N shows more" in cli("dlq", "show", topic).stderr
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["list", "nothing.dlq"], 4, "no topic 'nothing.dlq'"),
        (["list", "TOPIC", "--where", "colour = red"], 2, "there is no field 'colour'"),
        (["replay", "TOPIC", "--python", "nowhere.py:f"], 2, "there is no file nowhere.py"),
        (["replay", "TOPIC", "--sql", "DELETE FROM source"], 2, "one SELECT over source"),
        (["replay", "TOPIC", "--sql", "SELECT count(*) FROM source"], 2, "one by one"),
        (["replay", "TOPIC", "--sql", "SELECT 1", "--python", "a.py:f"], 2, "give one"),
        (["replay", "TOPIC", "--to", "missing"], 1, "there is no topic missing"),
    ],
)
def test_mistakes_are_explained(
    cli: Cli, topic: str, words: list[str], code: int, said: str
) -> None:
    ended = cli("dlq", *(topic if word == "TOPIC" else word for word in words))
    assert ended.code == code, ended
    assert said in ended.stderr
