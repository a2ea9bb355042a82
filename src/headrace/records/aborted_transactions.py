"""Which fetched batches a reader of committed data skips: those of aborted transactions. Pure."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.records.batch_header import BatchHeader
from headrace.records.control import ControlType, read_control
from headrace.records.record import iter_records

MAX_MARKER_BYTES: Final = 1 << 20
"""A control batch holds one small record."""


class Aborted(NamedTuple):
    """An aborted transaction, as a Fetch response lists it. Its producer's records from
    `first_offset` up to the marker are not returned."""

    producer_id: int
    first_offset: int


class AbortedRecords:
    """Tracks which producers are inside an aborted transaction, batch by batch."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        by_offset = sorted(aborted, key=lambda each: each.first_offset)
        self._to_come = by_offset[::-1]
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        while self._to_come and self._to_come[-1].first_offset <= header.last_offset:
            self._open.add(self._to_come.pop().producer_id)
        return header.is_transactional and header.producer_id in self._open

    def ended(self, producer_id: int) -> None:
        self._open.discard(producer_id)


def is_hidden(batch: memoryview, header: BatchHeader, filtering: AbortedRecords | None) -> bool:
    """Whether readers do not see the batch: a control batch, or one of an aborted transaction.

    Without `filtering`, the reader wants uncommitted data too.
    """
    if header.is_control:
        if filtering is not None:
            record = next(iter_records(batch, max_bytes=MAX_MARKER_BYTES), None)
            if record is not None and read_control(record).type is ControlType.ABORT:
                filtering.hides(header)
                filtering.ended(header.producer_id)
        return True
    return filtering is not None and filtering.hides(header)
