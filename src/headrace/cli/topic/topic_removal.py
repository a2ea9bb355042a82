"""`headrace topic delete` and `topic trim`: delete topics, or their oldest records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import missing
from headrace.cli.exit_codes import ExitCode
from headrace.cli.offset_lookup import Bounds, bounds_of, resolve, warn_of_clamping
from headrace.cli.options import OnlyPartitions, TopicName, TopicPatterns
from headrace.cli.output import Table, code_of, counted, remark, report
from headrace.cli.position_parser import parse_start
from headrace.cli.session import (
    Session,
    find_topics,
    is_pattern,
    parse_partitions,
    partitions_of,
    topics_like,
    values_of,
)
from headrace.client.admin.offsets import list_bounds
from headrace.client.admin.topics import delete_records, delete_topics, list_topics
from headrace.client.client import ClusterClient
from headrace.client.metadata import TopicInfo
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock
from headrace.operations.positions import Start
from headrace.protocol.errors import ErrorCode


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    command(app, "delete")(delete)
    command(app, "trim")(trim)


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """The topics to delete, and the names and patterns without a topic."""

    topics: Sequence[TopicInfo]
    records: Mapping[str, int | None]
    """By topic; None if a leader does not answer."""
    absent: Mapping[str, Refusal]
    known: Sequence[str]


def delete(
    session: Session,
    topics: TopicPatterns,
    execute: Execute = False,
) -> ExitCode | None:
    """Delete topics and all their records."""

    async def inspect(client: ClusterClient) -> DeletionPlan:
        return await _deletion_plan(client, topics, session.timeout_s, count=not execute)

    plan = session.run(inspect)
    names = [topic.name for topic in plan.topics]
    if names and not _approve_deletion(session, execute, plan):
        for name in plan.absent:
            remark(missing("topic", name, plan.known))
        return code_of(len(names) + len(plan.absent), list(plan.absent.values()))

    async def work(client: ClusterClient) -> dict[str, Refusal | None]:
        return await delete_topics(client, names, timeout_s=session.timeout_s)

    outcomes = session.run(work) if names else {}
    return report(session.output, "topic", "deleted", {**outcomes, **plan.absent}, plan.known)


async def _deletion_plan(
    client: ClusterClient, words: Sequence[str], timeout_s: float, *, count: bool
) -> DeletionPlan:
    known = {topic.name: topic for topic in await list_topics(client, timeout_s=timeout_s)}
    found: dict[str, TopicInfo] = {}
    absent: dict[str, Refusal] = {}
    for word in words:
        names = topics_like(word, known) if is_pattern(word) else [word] * (word in known)
        found |= {name: known[name] for name in names}
        if not names:
            absent[word] = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic matches")
    partitions = [each for topic in found.values() for each in partitions_of(topic)]
    bounds = await list_bounds(client, partitions, timeout_s=timeout_s) if count else {}
    records = {
        topic.name: _record_count([bounds.get(each) for each in partitions_of(topic)])
        for topic in found.values()
    }
    return DeletionPlan(list(found.values()), records, absent, list(known))


def _record_count(bounds: Sequence[tuple[int, int] | Refusal | None]) -> int | None:
    total = 0
    for bound in bounds:
        if bound is None or isinstance(bound, Refusal):
            return None
        total += bound[1] - bound[0]
    return total


def _approve_deletion(session: Session, execute: bool, plan: DeletionPlan) -> bool:
    facts = [
        {
            "name": topic.name,
            "status": "would delete",
            "partitions": len(topic.partitions),
            "max_records": plan.records[topic.name],
        }
        for topic in plan.topics
    ]
    rows = [(each["name"], each["partitions"], each["max_records"]) for each in facts]
    names = [topic.name for topic in plan.topics]
    what = f"topic {names[0]}" if len(names) == 1 else counted(len(names), "topic")
    return is_approved(
        session.output,
        execute,
        f"delete {what} with all records",
        facts,
        Table(("TOPIC TO DELETE", "PARTITIONS", "RECORDS (MAX)"), rows),
    )


def trim(
    session: Session,
    topic: TopicName,
    before: Annotated[
        str,
        typer.Option(
            "--before",
            "-o",
            metavar="POSITION",
            help="Delete the records before OFFSET, end or s@TIME; -N keeps the last N records of "
            "each partition.",
            show_default=False,
        ),
    ],
    partitions: OnlyPartitions = None,
    execute: Execute = False,
) -> ExitCode | None:
    """Delete the oldest records of a topic."""
    place = parse_start(before, SystemClock().wall_ms(), flag="--before")
    chosen = parse_partitions(partitions)

    async def inspect(client: ClusterClient) -> tuple[Bounds, dict[TopicPartition, int]]:
        return await _trim_plan(client, topic, chosen, place, session.timeout_s)

    bounds, offsets = session.run(inspect)
    plan = _trim_facts(bounds, offsets)
    headers = ("TOPIC", "PARTITION", "START-BEFORE", "START-AFTER", "END")
    table = Table(headers, [tuple(each.values()) for each in plan])
    action = f"delete the records of {topic} before {before}"
    if not is_approved(session.output, execute, action, plan, table):
        return None

    async def work(client: ClusterClient) -> dict[TopicPartition, int]:
        return values_of(await delete_records(client, offsets, timeout_s=session.timeout_s))

    done = _trim_facts(bounds, session.run(work))
    headers = ("TOPIC", "PARTITION", "START-BEFORE", "START-NOW", "END")
    session.output.show(done, Table(headers, [tuple(each.values()) for each in done]))
    return None


async def _trim_plan(
    client: ClusterClient, topic: str, chosen: Sequence[int] | None, place: Start, timeout_s: float
) -> tuple[Bounds, dict[TopicPartition, int]]:
    (found,) = await find_topics(client, [topic], timeout_s=timeout_s)
    bounds = await bounds_of(client, partitions_of(found, chosen), timeout_s=timeout_s)
    warn_of_clamping(bounds, place)
    return bounds, await resolve(client, bounds, place, timeout_s=timeout_s)


def _trim_facts(bounds: Bounds, starts: Mapping[TopicPartition, int]) -> list[dict[str, object]]:
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "start_before": start,
            "start_offset": starts[each],
            "end_offset": end,
        }
        for each, (start, end) in bounds.items()
    ]
