"""The number of records that a member acquires at once."""

from collections.abc import Sequence
from typing import Final, NamedTuple

_NEVER_THROTTLED_BELOW: Final = 2


class BatchLimit(NamedTuple):
    """The records that a member requests. `strict`: at most `max_records` (KIP-1206)."""

    max_records: int
    batch_size: int
    strict: bool = False


def throttled_size(deliveries: int, width: int, max_deliveries: int) -> int | None:
    """The number of records of a repeatedly failed batch to deliver together; None for all of them.

    After half of the allowed deliveries, a batch is delivered in ever smaller parts, so that one
    bad record does not fail its neighbours. The last delivery has only one record.
    """
    limit = max(_NEVER_THROTTLED_BELOW, -(-max_deliveries // 2))
    if deliveries < limit:
        return None
    if max_deliveries > _NEVER_THROTTLED_BELOW and deliveries >= max_deliveries - 1:
        return 1
    return max(1, width >> (deliveries - limit + 1))


def batch_groups(
    first: int, batches: Sequence[tuple[int, int]], room: int, take: BatchLimit
) -> list[tuple[int, int]]:
    """New offsets to deliver from `first` on, in groups that are acknowledged together.

    Strict: exactly `room` offsets, if the log has them. Otherwise the batch with the last of them
    is acquired completely, and a group ends at a batch boundary once it has `take.batch_size`
    records.
    """
    last = min(batches[-1][1], first + room - 1)
    if take.strict:
        return [(first, last)]
    for base, end in batches:
        if base <= last <= end:
            last = end
            break
    groups: list[tuple[int, int]] = []
    for base, _ in batches:
        if base > last:
            break
        if base - first >= take.batch_size:
            groups.append((first, base - 1))
            first = base
    groups.append((first, last))
    return groups
