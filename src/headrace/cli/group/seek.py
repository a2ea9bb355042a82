"""Moves groups: from the options of `seek` to a new offset for each partition.

Consumer groups and share groups share this module.
"""

import csv
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from headrace.cli.confirmation import is_approved
from headrace.cli.error_messages import sentence, usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.offset_lookup import bounds_of
from headrace.cli.output import Table, code_of, counted, remark
from headrace.cli.position_parser import parse_start
from headrace.cli.session import (
    Session,
    find_topics,
    parse_partitions,
    partitions_of,
    values_of,
)
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock
from headrace.operations.group_moves import Goal, Positions, Target, Targets, requested_offsets

_COLUMNS = 3
_HEADERS = ("TOPIC", "PARTITION", "BEFORE", "AFTER", "START", "END")


def goal_of(to: str | None, shift: int | None, group: str | None, file: Path | None) -> Goal:
    """The goal of the options, of which exactly one must be given."""
    if sum(each is not None for each in (to, shift, group, file)) != 1:
        raise usage(
            "give exactly one of --to, --shift and --to-file (consumer groups also take --to-group)"
        )
    if to is not None:
        return Goal(place=parse_start(to, SystemClock().wall_ms(), flag="--to"))
    if file is not None:
        return Goal(offsets=read_offsets(file))
    return Goal(shift=shift, group=group)


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """The offsets of a file with a line `topic,partition,offset` for each partition.

    Spaces may separate the fields; # starts a comment.
    """
    offsets: dict[TopicPartition, int] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise usage(f"{path} is not text: {error}") from error
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        fields = next(csv.reader([text])) if "," in text else text.split()
        try:
            topic, partition, offset = (each.strip() for each in fields[:_COLUMNS])
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise usage(f"{path}:{number}: expected TOPIC,PARTITION,OFFSET, not {text!r}") from None
    if not offsets:
        raise usage(f"{path} contains no offsets")
    return offsets


async def plan_move(
    client: ClusterClient,
    session: Session,
    goal: Goal,
    topics: Sequence[str],
    current: Positions,
    others: Positions,
) -> dict[TopicPartition, Target]:
    """The new offset of each partition.

    `current` is the position of the group, `others` that of the group in `--to-group`. `topics` are
    the values of --topic: TOPIC or TOPIC:0,2.
    """
    named = goal.offsets if goal.offsets is not None else others
    chosen = await partitions_named(client, session, topics) if topics else None
    if goal.names_partitions:
        partitions = [each for each in sorted(named) if chosen is None or each in chosen]
    else:
        partitions = sorted(current) if chosen is None else chosen
    if not partitions:
        raise usage("the group has no committed offsets; select topics with --topic TOPIC")
    bounds = await bounds_of(client, partitions, timeout_s=session.timeout_s)
    requested = values_of(
        await requested_offsets(client, goal, bounds, current, others, timeout_s=session.timeout_s)
    )
    return {each: Target(requested[each], *bounds[each]) for each in partitions}


async def partitions_named(
    client: ClusterClient, session: Session, words: Sequence[str]
) -> list[TopicPartition]:
    """The partitions that words such as `orders` and `orders:0,2` select."""
    wanted: list[TopicPartition] = []
    for word in words:
        name, colon, indexes = word.partition(":")
        (topic,) = await find_topics(client, [name], timeout_s=session.timeout_s)
        wanted.extend(partitions_of(topic, parse_partitions(indexes if colon else None)))
    return list(dict.fromkeys(wanted))


class PlannedMove(NamedTuple):
    """A move before its approval: the members, the present offsets and the new ones."""

    members: int
    before: Positions
    targets: Targets


Planner: TypeAlias = Callable[[ClusterClient], Coroutine[object, object, PlannedMove]]


class SetOffsets(Protocol):
    """The request of the client that sets the offsets of a group."""

    async def __call__(
        self, client: ClusterClient, group: str, offsets: Positions, /, *, timeout_s: float
    ) -> dict[TopicPartition, Refusal | None]: ...


def move_group(
    session: Session, group: str, plan: Planner, set_offsets: SetOffsets, *, execute: bool
) -> ExitCode | None:
    """Moves a group of any type: shows the plan, asks for approval, moves it and reports."""
    members, before, targets = session.run(plan)
    if not _approve_move(session, group, members, before, targets, execute=execute):
        return None
    after = {each: target.offset for each, target in targets.items()}
    done = session.run(lambda c: set_offsets(c, group, after, timeout_s=session.timeout_s))
    return _report_move(session, group, before, targets, done)


def _approve_move(
    session: Session,
    group: str,
    members: int,
    before: Positions,
    targets: Targets,
    *,
    execute: bool,
) -> bool:
    """Whether to move the group. Shows the plan, and warns of members and of clamped offsets.

    Members commit their own positions, so a group with members cannot be moved.
    """
    busy = f"{group!r} has {counted(members, 'active member')}"
    if members and execute:
        raise CommandFailed(f"{busy}; stop its consumers first")
    _warn_of_clamping(targets)
    if members:
        remark(f"{busy}; stop its consumers before --execute")
    return is_approved(
        session.output,
        execute,
        f"move group {group!r}",
        _move_facts(group, before, targets, executed=False),
        Table(_HEADERS, _move_rows(before, targets)),
    )


def _report_move(
    session: Session,
    group: str,
    before: Positions,
    targets: Targets,
    done: Mapping[TopicPartition, Refusal | None],
) -> ExitCode:
    """Shows the new position of the group, and the partitions that did not move."""
    failed = {each: why for each, why in done.items() if why is not None}
    for each, why in failed.items():
        remark(f"{each} did not move: {sentence(why)}")
    moved = {each: target for each, target in targets.items() if each not in failed}
    facts = _move_facts(group, before, moved, executed=True)
    session.output.show(facts, Table(_HEADERS, _move_rows(before, moved)))
    return code_of(len(targets), list(failed.values()))


def _warn_of_clamping(targets: Targets) -> None:
    for each, target in sorted(targets.items()):
        if target.is_clamped:
            remark(
                f"offset {target.requested} is outside the range of {each} "
                f"({target.start} to {target.end}); it becomes {target.offset}"
            )


def _move_rows(before: Positions, targets: Targets) -> list[tuple[object, ...]]:
    return [
        (*each, before.get(each), target.offset, target.start, target.end)
        for each, target in sorted(targets.items())
    ]


def _move_facts(
    group: str, before: Positions, targets: Targets, *, executed: bool
) -> dict[str, object]:
    return {
        "group": group,
        "executed": executed,
        "offsets": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "before": before.get(each),
                "after": target.offset,
                "requested": target.requested,
                "clamped": target.is_clamped,
                "start": target.start,
                "end": target.end,
            }
            for each, target in sorted(targets.items())
        ],
    }
