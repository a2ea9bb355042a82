"""Plans are Kafka's own JSON: read back as written, and refused with what is wrong."""

import json
from pathlib import Path

import pytest

from headrace.cli.cluster.reassign_plan import parse_brokers
from headrace.cli.cluster.reassignment_file import read_plan, write_plan
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.client.results import TopicPartition

ITEM = {"topic": "t", "partition": 0, "replicas": [1, 2]}


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = {TopicPartition("t", 0): (1, 2), TopicPartition("u", 3): (2,)}
    path = tmp_path / "plan.json"
    write_plan(path, plan)
    assert read_plan(path) == plan
    assert json.loads(path.read_text())["partitions"][0]["log_dirs"] == ["any", "any"]


def test_directories_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": [ITEM]}))
    assert read_plan(path) == {TopicPartition("t", 0): (1, 2)}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected"),
        ({"version": 2, "partitions": [ITEM]}, "version 2"),
        ({"version": 1, "partitions": []}, "no partition"),
        ({"version": 1, "partitions": [{"topic": "t"}]}, "partition 1 of the list"),
        ({"version": 1, "partitions": [ITEM, ITEM]}, "t-0 is in the list twice"),
        ({"version": 1, "partitions": [{**ITEM, "replicas": []}]}, "broker ids"),
        ({"version": 1, "partitions": [{**ITEM, "replicas": [1, "2"]}]}, "broker ids"),
        ({"version": 1, "partitions": [{**ITEM, "replicas": [1, 1]}]}, "twice"),
        ({"version": 1, "partitions": [{**ITEM, "log_dirs": ["/a", "any"]}]}, "log_dirs"),
        ({"version": 1, "partitions": [{**ITEM, "log_dirs": 3}]}, "log_dirs"),
    ],
)
def test_a_bad_plan_is_refused_with_what_is_wrong(
    tmp_path: Path, content: object, words: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(CommandFailed, match=words) as refused:
        read_plan(path)
    assert refused.value.code is ExitCode.USAGE


def test_brokers_are_read_as_people_write_them() -> None:
    assert parse_brokers("1,2,4-6,2") == [1, 2, 4, 5, 6]
    assert parse_brokers(None) is None
    with pytest.raises(CommandFailed):
        parse_brokers("one")
