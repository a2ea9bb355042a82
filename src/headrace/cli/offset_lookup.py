"""Resolves positions (beginning, end, a time) to the offsets of partitions."""

from collections.abc import Sequence

from headrace.cli.output import remark
from headrace.cli.position_parser import (
    AtOffset,
    FromBeginning,
    FromEnd,
    LastRecords,
    SinceTime,
    Start,
    UntilTime,
)
from headrace.cli.session import values_of
from headrace.client.admin.offsets import NO_OFFSET, list_bounds, list_offsets
from headrace.client.client import ClusterClient
from headrace.client.results import TopicPartition

Bounds = dict[TopicPartition, tuple[int, int]]

MAX_NAMED = 8
"""The maximum number of partitions in one warning."""


async def bounds_of(
    client: ClusterClient, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> Bounds:
    """The start and end offset of each partition."""
    return values_of(await list_bounds(client, partitions, timeout_s=timeout_s))


async def resolve(
    client: ClusterClient, bounds: Bounds, place: Start | UntilTime, *, timeout_s: float
) -> dict[TopicPartition, int]:
    """The offset of `place` in each partition, between its start and its end."""
    match place:
        case SinceTime(timestamp_ms=at) | UntilTime(timestamp_ms=at):
            asked = await list_offsets(client, dict.fromkeys(bounds, at), timeout_s=timeout_s)
            found = values_of(asked)
            return {
                each: end if found[each].offset == NO_OFFSET else found[each].offset
                for each, (_, end) in bounds.items()
            }
        case FromBeginning():
            return {each: start for each, (start, _) in bounds.items()}
        case FromEnd():
            return {each: end for each, (_, end) in bounds.items()}
        case AtOffset(offset=offset):
            return {each: min(max(offset, start), end) for each, (start, end) in bounds.items()}
        case LastRecords(count=count):
            return {each: max(end - count, start) for each, (start, end) in bounds.items()}


def warn_of_clamping(bounds: Bounds, place: Start | UntilTime) -> None:
    """Warns of partitions that do not contain the offset: `resolve` uses the nearest one."""
    if not isinstance(place, AtOffset):
        return
    outside = [
        f"{each} ({start} to {end})"
        for each, (start, end) in sorted(bounds.items())
        if not start <= place.offset <= end
    ]
    if outside:
        named = ", ".join(outside[:MAX_NAMED])
        more = f" and {len(outside) - MAX_NAMED} more" if len(outside) > MAX_NAMED else ""
        remark(
            f"offset {place.offset} is outside the range of {named}{more}; "
            "the nearest offset is used"
        )
