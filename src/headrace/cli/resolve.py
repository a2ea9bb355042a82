"""Turns places that people name into offsets that partitions have."""

from collections.abc import Sequence

from headrace.cli.positions import At, Beginning, End, Last, Since, Start, Until
from headrace.cli.session import values_of
from headrace.client.client import ClusterClient
from headrace.client.offsets import NO_OFFSET, list_bounds, list_offsets
from headrace.client.outcomes import TopicPartition

Bounds = dict[TopicPartition, tuple[int, int]]


async def bounds_of(
    client: ClusterClient, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> Bounds:
    """First offset and end of each partition."""
    return values_of(await list_bounds(client, partitions, timeout_s=timeout_s))


async def resolve(
    client: ClusterClient, bounds: Bounds, place: Start | Until, *, timeout_s: float
) -> dict[TopicPartition, int]:
    """The offset of `place` in each partition, kept within what the partition holds."""
    match place:
        case Since(timestamp_ms=at) | Until(timestamp_ms=at):
            asked = await list_offsets(client, dict.fromkeys(bounds, at), timeout_s=timeout_s)
            found = values_of(asked)
            return {
                each: end if found[each].offset == NO_OFFSET else found[each].offset
                for each, (_, end) in bounds.items()
            }
        case Beginning():
            return {each: start for each, (start, _) in bounds.items()}
        case End():
            return {each: end for each, (_, end) in bounds.items()}
        case At(offset=offset):
            return {each: min(max(offset, start), end) for each, (start, end) in bounds.items()}
        case Last(count=count):
            return {each: max(end - count, start) for each, (start, end) in bounds.items()}
