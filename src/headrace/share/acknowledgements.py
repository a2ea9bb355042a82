"""Acknowledgements as clients send them: one type for a range, or one for each offset."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NoReturn, Protocol

from headrace.protocol.errors import ErrorCode
from headrace.share.errors import AcknowledgeError
from headrace.share.record_state import Acknowledgement, AcknowledgeType


class AcknowledgementBatch(Protocol):
    """An acknowledgement batch, the same in ShareFetch and ShareAcknowledge."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def read_acknowledgements(
    batches: Iterable[AcknowledgementBatch], *, renews: bool
) -> list[Acknowledgement]:
    """The batches of one partition as ordered runs that do not overlap; otherwise INVALID_REQUEST.

    Only a request that `renews` may renew a lock (KIP-1222).
    """
    result: list[Acknowledgement] = []
    previous = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first <= previous:
            _refuse(f"offsets {first} to {last} are not in order")
        if len(types) not in (1, last - first + 1):
            _refuse(f"{len(types)} types for offsets {first} to {last}")
        for run in _runs(first, last, [_kind(number, renews=renews) for number in types]):
            before = result[-1] if result else None
            if before and before.last + 1 == run.first and before.kind is run.kind:
                result[-1] = before._replace(last=run.last)
            else:
                result.append(run)
        previous = last
    return result


def _kind(number: int, *, renews: bool) -> AcknowledgeType:
    highest = AcknowledgeType.RENEW if renews else AcknowledgeType.REJECT
    if not 0 <= number <= highest:
        _refuse(f"type {number} is not allowed in this request")
    return AcknowledgeType(number)


def _runs(first: int, last: int, kinds: Sequence[AcknowledgeType]) -> Iterable[Acknowledgement]:
    if len(kinds) == 1:
        yield Acknowledgement(first, last, kinds[0])
        return
    for kind, run in groupby(kinds):
        size = sum(1 for _ in run)
        yield Acknowledgement(first, first + size - 1, kind)
        first += size


def _refuse(reason: str) -> NoReturn:
    raise AcknowledgeError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledgement: {reason}.")
