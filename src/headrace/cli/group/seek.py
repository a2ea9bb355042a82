"""Where to move a group: from the command line's words to an offset for each partition.

The same for consumer groups and share groups; what differs is who is asked and told.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.cli.exits import CommandFailed, ExitCode, sentence, usage
from headrace.cli.output import Table, code_of, remark
from headrace.cli.records.offset_lookup import bounds_of, resolve
from headrace.cli.records.positions import Start, parse_start
from headrace.cli.session import Session, find_topics, parse_partitions, partitions_of
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock

_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Goal:
    """Exactly one of the four is set."""

    place: Start | None = None
    shift: int | None = None
    group: str | None = None
    offsets: Mapping[TopicPartition, int] | None = None

    @property
    def names_partitions(self) -> bool:
        """Whether the goal itself says which partitions move."""
        return self.group is not None or self.offsets is not None


def goal_of(to: str | None, shift: int | None, group: str | None, file: Path | None) -> Goal:
    """What the options ask for; more or less than one of them is a mistake."""
    if sum(each is not None for each in (to, shift, group, file)) != 1:
        raise usage("say where to with one of --to, --shift, --to-group and --to-file")
    if to is not None:
        return Goal(place=parse_start(to, SystemClock().wall_ms(), flag="--to"))
    if file is not None:
        return Goal(offsets=read_offsets(file))
    return Goal(shift=shift, group=group)


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """`topic,partition,offset` or the same with blanks, one a line; # starts a comment."""
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
        raise usage(f"{path} names no offsets")
    return offsets


async def plan_move(
    client: ClusterClient,
    session: Session,
    goal: Goal,
    topics: Sequence[str],
    current: Mapping[TopicPartition, int],
    others: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The new offset of each partition, within what the partition holds.

    `current` is where the group is, `others` where the group of the goal is. `topics` are the words
    of --topic: TOPIC or TOPIC:0,2.
    """
    named = goal.offsets if goal.offsets is not None else others
    chosen = await partitions_named(client, session, topics) if topics else None
    if goal.names_partitions:
        partitions = [each for each in sorted(named) if chosen is None or each in chosen]
    else:
        partitions = sorted(current) if chosen is None else chosen
    if not partitions:
        raise usage("there are no offsets to go by; name the topics with --topic")
    bounds = await bounds_of(client, partitions, timeout_s=session.timeout_s)
    if goal.place is not None:
        return await resolve(client, bounds, goal.place, timeout_s=session.timeout_s)
    targets = {}
    for each in partitions:
        start, end = bounds[each]
        wanted = named[each] if goal.shift is None else current.get(each, start) + goal.shift
        targets[each] = min(max(wanted, start), end)
        if targets[each] != wanted:
            remark(f"{each} holds {start} to {end}; {wanted} becomes {targets[each]}")
    return targets


async def partitions_named(
    client: ClusterClient, session: Session, words: Sequence[str]
) -> list[TopicPartition]:
    """The partitions of words such as `orders` and `orders:0,2`."""
    wanted: list[TopicPartition] = []
    for word in words:
        name, colon, indexes = word.partition(":")
        (topic,) = await find_topics(client, [name], timeout_s=session.timeout_s)
        wanted.extend(partitions_of(topic, parse_partitions(indexes if colon else None)))
    return list(dict.fromkeys(wanted))


def check_members(group: str, members: int, *, execute: bool) -> None:
    """A group with members goes on from where they are: they have to stop first."""
    if not members:
        return
    if execute:
        raise CommandFailed(f"{group!r} has {members} active members; stop its consumers first")
    remark(f"{group!r} has {members} active members; --execute needs them stopped")


def finish_move(
    session: Session,
    group: str,
    before: Mapping[TopicPartition, int],
    after: Mapping[TopicPartition, int],
    done: Mapping[TopicPartition, Refusal | None] | None,
) -> ExitCode:
    """Shows before and after; `done` says what became of it, None that nothing was tried."""
    failed = {each: why for each, why in (done or {}).items() if why is not None}
    for each, why in failed.items():
        remark(f"{each} did not move: {sentence(why)}")
    rows = [
        (each.topic, each.partition, before.get(each), after[each])
        for each in sorted(after)
        if each not in failed
    ]
    facts = {
        "group": group,
        "executed": done is not None,
        "offsets": [
            {"topic": topic, "partition": index, "before": old, "after": new}
            for topic, index, old, new in rows
        ],
    }
    session.output.show(facts, Table(("TOPIC", "PARTITION", "BEFORE", "AFTER"), rows))
    if done is None:
        remark("nothing was changed; add --execute to do it")
    return code_of(len(after), list(failed.values()))
