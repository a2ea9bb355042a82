"""Searches fetched batches for matching records. Pure, and run in worker threads.

The speed of a text search is that of decompression: a batch whose decompressed bytes lack a needle
is passed over without decoding a record.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.console.messages.decoding import Decoder
from headrace.console.messages.query import Query
from headrace.records.batch_header import HEADER_SIZE, BatchHeader, headers
from headrace.records.codec import Codec, decompress
from headrace.records.control import ControlType, read_control
from headrace.records.errors import RecordError
from headrace.records.record import Record, iter_records

MAX_BATCH_BYTES: Final = 128 * 1024 * 1024
"""Of one decompressed batch: a zip bomb ends the search of its batch only."""


class Aborted(NamedTuple):
    """An aborted transaction, as Fetch names it."""

    producer_id: int
    first_offset: int


class Match(NamedTuple):
    """A record that passed all filters, and its batch."""

    record: Record
    header: BatchHeader


@dataclass(slots=True)
class Scanned:
    """What one chunk contained."""

    matches: list[Match] = field(default_factory=list)
    records: int = 0
    log_bytes: int = 0
    """As in the log."""
    raw_bytes: int = 0
    """Decompressed."""
    next_offset: int = 0
    problem: str = ""
    """Why a batch could not be read; the search goes on after it."""


class Scanner:
    """Scans the chunks of one partition in order; remembers transactions between them."""

    def __init__(self, query: Query, decoder: Decoder) -> None:
        self._query = query
        self._decoder = decoder
        self._aborting: set[int] = set()
        self._plain_may_match = True

    def scan(
        self,
        data: memoryview,
        *,
        start: int,
        end: int,
        max_matches: int,
        aborted: Sequence[Aborted] = (),
    ) -> Scanned:
        """The matches with offsets from `start` to before `end`, at most `max_matches`."""
        found = Scanned(next_offset=start)
        # One look at all bytes passes over the uncompressed batches, however small they are.
        self._plain_may_match = not self._query.has_needles or self._query.may_match(bytes(data))
        left = deque(sorted(aborted, key=lambda each: each.first_offset))
        try:
            for pos, header in headers(data, partial_tail=True):
                if header.base_offset >= end:
                    found.next_offset = end
                    break
                while left and left[0].first_offset <= header.last_offset:
                    self._aborting.add(left.popleft().producer_id)
                batch = data[pos : pos + header.size]
                self._scan_batch(batch, header, found, range(start, end), max_matches)
                if len(found.matches) >= max_matches:
                    break
        except RecordError as error:  # without a header, the next batch cannot be found
            found.problem = f"what follows offset {found.next_offset} is damaged: {error}"
            found.next_offset = end
        return found

    def _scan_batch(
        self,
        batch: memoryview,
        header: BatchHeader,
        found: Scanned,
        wanted: range,
        max_matches: int,
    ) -> None:
        """Adds the matches of one batch; a damaged payload is reported and passed over."""
        found.log_bytes += header.size
        found.records += header.record_count
        try:
            if header.is_control:
                self._end_transaction(batch, header)
            elif not self._is_aborted(header):
                for match in self._matches(batch, header, found):
                    if match.record.offset in wanted:
                        found.matches.append(match)
                        if len(found.matches) >= max_matches:
                            found.next_offset = match.record.offset + 1
                            return
        except RecordError as error:
            found.problem = f"the batch at offset {header.base_offset} is damaged: {error}"
        found.next_offset = max(header.next_offset, found.next_offset)

    def _is_aborted(self, header: BatchHeader) -> bool:
        return (
            self._query.committed_only
            and header.is_transactional
            and header.producer_id in self._aborting
        )

    def _end_transaction(self, batch: memoryview, header: BatchHeader) -> None:
        for record in iter_records(batch, max_bytes=MAX_BATCH_BYTES):
            if read_control(record).type is ControlType.ABORT:
                self._aborting.discard(header.producer_id)

    def _matches(self, batch: memoryview, header: BatchHeader, found: Scanned) -> Iterator[Match]:
        query = self._query
        if query.has_needles and header.codec is Codec.NONE:
            found.raw_bytes += header.size
            if not self._plain_may_match or not query.may_match(bytes(batch)):
                return
        elif query.has_needles:
            payload = batch[HEADER_SIZE:]
            raw = bytes(decompress(header.codec, payload, max_bytes=MAX_BATCH_BYTES))
            found.raw_bytes += len(raw)
            if not query.may_match(raw):
                return
        else:
            found.raw_bytes += header.size
        for record in iter_records(batch, max_bytes=MAX_BATCH_BYTES):
            if query.matches(record, self._decoder):
                yield Match(record, header)
