"""Resolves positions (beginning, end, a time) to the offsets of partitions."""

from collections.abc import Sequence

from headrace.cli.output import remark
from headrace.cli.session import values_of
from headrace.client.admin.offsets import list_bounds
from headrace.client.client import ClusterClient
from headrace.client.results import TopicPartition
from headrace.operations.positions import AtOffset, Start, UntilTime, resolve_positions

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
    return values_of(await resolve_positions(client, bounds, place, timeout_s=timeout_s))


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
