"""Reads and writes reassignment plans in the format of kafka-reassign-partitions.

{"version": 1, "partitions": [
  {"topic": "orders", "partition": 0, "replicas": [1, 2, 3], "log_dirs": ["any", "any", "any"]}]}
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.cli.error_messages import usage
from headrace.client.results import TopicPartition

VERSION: Final = 1
ANY_DIRECTORY: Final = "any"

Plan = Mapping[TopicPartition, tuple[int, ...]]


def plan_facts(plan: Plan) -> dict[str, object]:
    """The plan in the format of kafka-reassign-partitions."""
    return {
        "version": VERSION,
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "replicas": list(replicas),
                "log_dirs": [ANY_DIRECTORY] * len(replicas),
            }
            for each, replicas in plan.items()
        ],
    }


def write_plan(path: Path, plan: Plan) -> None:
    path.write_text(json.dumps(plan_facts(plan)) + "\n", encoding="utf-8")


def read_plan(path: Path) -> dict[TopicPartition, tuple[int, ...]]:
    """The plan in the file. Raises `CommandFailed` with the place of an error in it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise usage(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("partitions"), list):
        raise usage(f'{path}: expected {{"version": 1, "partitions": [...]}}')
    if content.get("version", VERSION) != VERSION:
        raise usage(f"{path} has version {content['version']}; only version {VERSION} is supported")
    plan: dict[TopicPartition, tuple[int, ...]] = {}
    for number, item in enumerate(content["partitions"], start=1):
        each, replicas = _parse_entry(path, number, item)
        if each in plan:
            raise usage(f"{path}: {each} is in the list twice")
        plan[each] = replicas
    if not plan:
        raise usage(f"{path} contains no partitions")
    return plan


def _parse_entry(path: Path, number: int, item: object) -> tuple[TopicPartition, tuple[int, ...]]:
    where = f"{path}, partition {number} of the list"
    match item:
        case {"topic": str(topic), "partition": int(index), "replicas": [*replicas], **rest}:
            directories = rest.get("log_dirs", [])
        case _:
            raise usage(f"{where}: expected topic, partition and replicas, not {item!r}")
    if not replicas or not all(type(broker) is int for broker in replicas):
        raise usage(f"{where}: replicas must be broker ids such as [1, 2, 3], not {replicas!r}")
    if len(set(replicas)) != len(replicas):
        raise usage(f"{where}: a broker is in {replicas!r} twice")
    if not isinstance(directories, list) or any(
        directory != ANY_DIRECTORY for directory in directories
    ):
        raise usage(
            f"{where}: log_dirs other than {ANY_DIRECTORY!r} are not supported; "
            "kafka-reassign-partitions moves replicas between directories"
        )
    return TopicPartition(topic, index), tuple(replicas)
