"""The form that moves a group: its goal, its partitions, and the offsets of the preview. Pure.

The preview page carries the offsets that it shows, so the move sets exactly those.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from headrace.client.results import TopicPartition
from headrace.console.web.errors import PageError
from headrace.operations.group_moves import Goal, Positions, Target
from headrace.operations.positions import (
    AtOffset,
    FromBeginning,
    FromEnd,
    LastRecords,
    SinceTime,
)

MAX_OFFSET: Final = 2**63 - 1
MAX_PARTITIONS: Final = 100_000


class SeekForm(NamedTuple):
    """The fields as they were submitted."""

    mode: str
    offset: str = ""
    last: str = ""
    shift: str = ""
    time: str = ""
    topic: str = ""
    partitions: str = ""


def goal_of(form: SeekForm) -> Goal:
    """The goal of the form; raises `PageError` for a field that cannot be used."""
    match form.mode:
        case "earliest":
            return Goal(place=FromBeginning())
        case "latest":
            return Goal(place=FromEnd())
        case "offset":
            return Goal(place=AtOffset(_number(form.offset, "Offset", low=0)))
        case "last":
            return Goal(place=LastRecords(_number(form.last, "Records", low=1)))
        case "time":
            return Goal(place=SinceTime(time_ms(form.time)))
        case "shift":
            return Goal(shift=_number(form.shift, "Shift", low=-MAX_OFFSET))
    raise _bad("Choose where to move the group")


def time_ms(text: str) -> int:
    """An ISO 8601 time, in UTC if it names no zone, or milliseconds since 1970."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _bad(
            f"Time is an ISO 8601 time such as 2026-01-31T12:00:00Z, not {text[:40]!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def partitions_of(
    form: SeekForm, held: Sequence[TopicPartition], topics: Mapping[str, Sequence[int]]
) -> list[TopicPartition]:
    """The partitions to move: those that the form names, or all that the group `held`."""
    topic = form.topic.strip()
    indexes = _indexes(form.partitions)
    if not topic:
        if indexes is not None:
            raise _bad("Partitions need a topic")
        if not held:
            raise _bad("The group has no committed offset; name a topic")
        return sorted(held)
    if topic not in topics:
        raise _bad(f"There is no topic {topic!r}")
    known = topics[topic]
    for index in indexes or ():
        if index not in known:
            raise _bad(f"{topic} has no partition {index}; the last one is {max(known, default=0)}")
    chosen = sorted(known) if indexes is None else indexes
    return [TopicPartition(topic, index) for index in chosen]


def to_text(targets: Mapping[TopicPartition, Target]) -> str:
    """The new offsets for the hidden field of the preview."""
    return json.dumps([[*each, target.offset] for each, target in sorted(targets.items())])


def from_text(text: str) -> Positions:
    """The offsets of the hidden field; raises `PageError`."""
    try:
        found = {
            TopicPartition(str(topic), int(index)): int(offset)
            for topic, index, offset in json.loads(text)
        }
    except (ValueError, TypeError):
        raise _bad("The preview cannot be read; make a new one") from None
    if not found:
        raise _bad("There is nothing to move")
    return found


def _indexes(text: str) -> list[int] | None:
    """`0,2-4` as numbers; None if the field is empty."""
    if not text.strip():
        return None
    chosen: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.strip().isdecimal()):
            raise _bad(f"Partitions are numbers and ranges such as 0,2-4, not {text[:40]!r}")
        low, high = int(first), int(last or first)
        if not low <= high < low + MAX_PARTITIONS:
            raise _bad(f"Partitions: {part.strip()[:40]!r} is no range")
        chosen.update(dict.fromkeys(range(low, high + 1)))
    return list(chosen)


def _number(text: str, what: str, *, low: int) -> int:
    text = text.strip()
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise _bad(f"{what} is a whole number, not {text[:40]!r}")
    number = int(text)
    if not low <= number <= MAX_OFFSET:
        raise _bad(f"{what} is at least {low}, not {number}")
    return number


def _bad(detail: str) -> PageError:
    return PageError(400, "The form is incomplete", f"{detail}. Nothing was changed.")
