"""Positions in a partition (the start, the end, an offset, a time), and their offsets now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headrace.client.admin.offsets import NO_OFFSET, list_offsets
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition


@dataclass(frozen=True, slots=True)
class FromBeginning:
    """The first available record."""


@dataclass(frozen=True, slots=True)
class FromEnd:
    """After the last record."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """This offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class LastRecords:
    """The last `count` records."""

    count: int


@dataclass(frozen=True, slots=True)
class SinceTime:
    """The first record at or after this time."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class UntilTime:
    """Stop at this time."""

    timestamp_ms: int


Start: TypeAlias = FromBeginning | FromEnd | AtOffset | LastRecords | SinceTime
Bounds: TypeAlias = Mapping[TopicPartition, tuple[int, int]]
"""The first offset of each partition, and the one after the last readable record."""


async def resolve_positions(
    client: ClusterClient, bounds: Bounds, place: Start | UntilTime, *, timeout_s: float
) -> dict[TopicPartition, int | Refusal]:
    """The offset of `place` in each partition, between its start and its end.

    A refusal is the answer of a partition whose leader refuses to look up the time.
    """
    match place:
        case SinceTime(timestamp_ms=at) | UntilTime(timestamp_ms=at):
            found = await list_offsets(client, dict.fromkeys(bounds, at), timeout_s=timeout_s)
            offsets: dict[TopicPartition, int | Refusal] = {}
            for each, (_, end) in bounds.items():
                answer = found[each]
                if isinstance(answer, Refusal):
                    offsets[each] = answer
                else:
                    offsets[each] = end if answer.offset == NO_OFFSET else answer.offset
            return offsets
        case FromBeginning():
            return {each: start for each, (start, _) in bounds.items()}
        case FromEnd():
            return {each: end for each, (_, end) in bounds.items()}
        case AtOffset(offset=offset):
            return {each: min(max(offset, start), end) for each, (start, end) in bounds.items()}
        case LastRecords(count=count):
            return {each: max(end - count, start) for each, (start, end) in bounds.items()}
