"""Plans of reassignments as files, in the form of kafka-reassign-partitions. Pure but for paths.

{"version": 1, "partitions": [
  {"topic": "orders", "partition": 0, "replicas": [1, 2, 3], "log_dirs": ["any", "any", "any"]}]}
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.cli.exits import usage
from headrace.client.results import TopicPartition

VERSION: Final = 1
ANY_DIRECTORY: Final = "any"

Plan = Mapping[TopicPartition, tuple[int, ...]]


def plan_facts(plan: Plan) -> dict[str, object]:
    """The plan as kafka-reassign-partitions writes and reads it."""
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
    """The plan in the file; a person's mistakes in it are named."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise usage(f"{path} is no JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("partitions"), list):
        raise usage(f'{path}: expected {{"version": 1, "partitions": [...]}}')
    if content.get("version", VERSION) != VERSION:
        raise usage(f"{path} has version {content['version']}; only {VERSION} is known")
    plan: dict[TopicPartition, tuple[int, ...]] = {}
    for number, item in enumerate(content["partitions"], start=1):
        each, replicas = _entry(path, number, item)
        if each in plan:
            raise usage(f"{path}: {each} is named twice")
        plan[each] = replicas
    if not plan:
        raise usage(f"{path} names no partition")
    return plan


def _entry(path: Path, number: int, item: object) -> tuple[TopicPartition, tuple[int, ...]]:
    where = f"{path}, partition {number} of the list"
    match item:
        case {"topic": str(topic), "partition": int(index), "replicas": [*replicas], **rest}:
            directories = rest.get("log_dirs", [])
        case _:
            raise usage(f"{where}: expected topic, partition and replicas, not {item!r}")
    if not replicas or not all(type(broker) is int for broker in replicas):
        raise usage(f"{where}: replicas are broker ids as in [1, 2, 3], not {replicas!r}")
    if len(set(replicas)) != len(replicas):
        raise usage(f"{where}: a broker is named twice in {replicas!r}")
    if not isinstance(directories, list) or any(
        directory != ANY_DIRECTORY for directory in directories
    ):
        raise usage(
            f"{where}: log_dirs other than {ANY_DIRECTORY!r} are not supported; "
            "kafka-reassign-partitions moves replicas between directories"
        )
    return TopicPartition(topic, index), tuple(replicas)
