"""One segment: a range of the log in one file, with its indexes.

The file holds whole batches, back to back; the next one goes to position `size`. After a partial
write the file is truncated to `size`. Index entries are kept in memory first: an append is one
write, and nothing after it can fail.
"""

import logging
from collections.abc import Iterator
from struct import Struct

from headrace.records.batch_header import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, read_header
from headrace.records.errors import RecordError
from headrace.storage.errors import CorruptIndex, LogCorrupt
from headrace.storage.files.filesystem import Buffer, read_exactly, write_all, write_in_pieces
from headrace.storage.files.open_files import OpenFile, OpenFiles
from headrace.storage.segment.index_file import MAX_ENTRIES_IN_MEMORY
from headrace.storage.segment.offset_index import OffsetIndex
from headrace.storage.segment.time_index import TimeIndex
from headrace.storage.segment.txn_index import TxnIndex

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
# Written by compaction: unfinished, and ready to replace segments (see `cleaning.swap`).
CLEANED = ".cleaned"
SWAP = ".swap"

OFFSET_DIGITS = 20
MAX_RELATIVE_OFFSET = 2**31 - 1
# One read of this size finds the batch if index entries are index.interval.bytes apart.
WALK_BYTES = 8192
NO_TIMESTAMP = -1
UNKNOWN = -2  # not read from the disk yet

# Base offset, length and last offset delta: the header fields that finding a batch needs.
_WALK = Struct(">qi11xi")
_MAGIC_AT = 16

log = logging.getLogger(__package__)


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


class Segment:
    """The batches from `base_offset` up to the next segment."""

    __slots__ = (
        "_bytes_since_index",
        "_created_ms",
        "_entries_in_memory",
        "_files",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_prepared",
        "base_offset",
        "checked_from",
        "dirty",
        "file",
        "first_timestamp_ms",
        "has_damaged_time_index",
        "index",
        "index_entries",
        "path",
        "removed",
        "size",
        "times",
        "txns",
    )

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        size: int = 0,
        index_size: int = 0,
        times_size: int = 0,
        has_txns: bool = False,
    ) -> None:
        self._files = files
        self.base_offset = base_offset
        self.path = f"{directory}/{file_name(base_offset, '')}"
        self.file = OpenFile(files, self.path + LOG)
        self.size = size
        self.checked_from = size  # later bytes were written, and checked, by this process
        self.index = OffsetIndex(files, self.path + OFFSET_INDEX, index_size)
        self.times = TimeIndex(files, self.path + TIME_INDEX, times_size)
        self.txns = TxnIndex(files, self.path + TXN_INDEX, on_disk=has_txns)
        self.dirty = False  # has bytes that are not synced
        self.removed = False
        self._bytes_since_index = 0
        self._created_ms = -1
        self.first_timestamp_ms = UNKNOWN if size else NO_TIMESTAMP  # of its first batch
        self._prepared = False
        self._entries_in_memory = 0
        self.index_entries = 0  # counted when the segment is prepared for writing
        self._max_timestamp = UNKNOWN if size else NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self.has_damaged_time_index = False  # the time index or the batch it points at is damaged

    def create(self) -> None:
        """Creates the empty file; its name is durable once the directory is synced."""
        fd = self.file.acquire(create=True)
        self._files.fs.truncate(fd, 0)
        self.dirty = True

    # --- appending ------------------------------------------------------------------------------

    def write(self, data: Buffer, *, in_pieces: bool = False) -> int:
        """Appends the bytes, all or none; returns the position at which they begin.

        Everything that `index_batch` needs from the disk is read before the write.
        """
        if not self._prepared or self._entries_in_memory > MAX_ENTRIES_IN_MEMORY:
            self._prepare_indexes()
        file = self.file
        fd = file.fd if file.fd >= 0 else file.acquire(create=True)
        position = self.size
        size = len(data)
        try:
            if in_pieces:
                write_in_pieces(self._files.fs, fd, data, position)
            elif self._files.fs.pwrite(fd, data, position) != size:
                write_all(self._files.fs, fd, data, position)
        except OSError:
            self._files.fs.truncate(fd, position)
            raise
        file.used = file.dirty = self.dirty = True
        self.size = position + size
        return position

    def _prepare_indexes(self) -> None:
        self.index.spill()
        self.times.spill()
        self._entries_in_memory = self.index.in_memory
        self.index_entries = max(len(self.index), len(self.times))
        # Both are read from the disk if they are not known yet.
        self._prepared = self.max_timestamp >= NO_TIMESTAMP and self.times.last_key >= -1

    def index_batch(
        self, position: int, size: int, last_offset: int, max_timestamp: int, interval_bytes: int
    ) -> None:
        """Updates the largest timestamp and the indexes for the batch at `position`."""
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if position == 0:
            self.first_timestamp_ms = max_timestamp
        if self._bytes_since_index > interval_bytes:
            base_offset = self.base_offset
            self.index.append(last_offset - base_offset, position)
            self.times.maybe_append(self._max_timestamp, self._max_timestamp_offset - base_offset)
            self._bytes_since_index = size
            self._entries_in_memory += 1
            self.index_entries += 1
        else:
            self._bytes_since_index += size

    def spill(self) -> None:
        """Writes index entries to their files if many are in memory."""
        if self._entries_in_memory > MAX_ENTRIES_IN_MEMORY:
            self._prepare_indexes()

    def should_roll(
        self,
        size: int,
        max_timestamp: int,
        last_offset: int,
        now_ms: int,
        max_bytes: int,
        max_age_ms: int,
        max_index_entries: int,
    ) -> bool:
        """Whether batches of this size, timestamp and last offset belong in a new segment.

        A segment rolls by size (segment.bytes), by time (segment.ms), when an offset is too far
        from its base offset, and when its index is full. An empty segment never rolls.
        """
        return self.size > 0 and (
            self.size + size > max_bytes
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            or self.age_ms(max_timestamp, now_ms) > max_age_ms
            or self.index_entries >= max_index_entries
        )

    def age_ms(self, timestamp: int, now_ms: int) -> int:
        """The age of the segment: by the records' timestamps if they have any."""
        first = self.first_timestamp_ms
        if first == UNKNOWN:
            first = self.first_timestamp
        if first >= 0 <= timestamp:
            return timestamp - first
        if self._created_ms < 0:
            self._created_ms = now_ms
        return now_ms - self._created_ms

    def write_indexes(self) -> None:
        """Completes the index files of a segment that is closed."""
        self.write_side_indexes()
        self.index.write_behind()

    def write_side_indexes(self) -> None:
        """Completes all but the offset index: its file comes last and marks the others complete."""
        self.times.maybe_append(self.max_timestamp, self._max_timestamp_offset - self.base_offset)
        self.times.write_behind()
        self.txns.write_behind()

    # --- timestamps -----------------------------------------------------------------------------

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, -1 if no record has one."""
        if self._max_timestamp == UNKNOWN:
            try:
                last = self.times.last()
            except (CorruptIndex, FileNotFoundError):
                last = (UNKNOWN, 0)
            self.has_damaged_time_index = last is not None and not self.time_entry_matches(*last)
            timestamp, relative = last or (NO_TIMESTAMP, 0)
            self._max_timestamp = timestamp
            self._max_timestamp_offset = self.base_offset + relative
            if self.has_damaged_time_index:
                # Retention uses it: a wrong timestamp would delete records too early.
                log.warning(
                    "time index is damaged; reading the batches instead",
                    extra={"segment": self.path},
                )
                self._scan_for_max_timestamp()
        return self._max_timestamp

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp, or the file's modification time if no record has one."""
        newest = self.max_timestamp
        return newest if newest >= 0 else self._files.fs.stat(self.path + LOG).modified_ms

    def time_entry_matches(self, timestamp: int, relative_offset: int) -> bool:
        """Whether the batch with that offset has that largest timestamp."""
        if timestamp < 0 or relative_offset < 0:
            return False
        try:
            found = self.find(self.base_offset + relative_offset)
            if found is None:
                return False
            return read_header(self.read_some(found[0], HEADER_SIZE)).max_timestamp == timestamp
        except (LogCorrupt, RecordError):
            return False

    def _scan_for_max_timestamp(self) -> None:
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        try:
            for _, header in self.headers_from(0):
                if header.max_timestamp > self._max_timestamp:
                    self._max_timestamp = header.max_timestamp
                    self._max_timestamp_offset = header.last_offset
        except LogCorrupt as error:
            log.warning(
                "largest timestamp is unknown: the segment is damaged", extra={"reason": str(error)}
            )

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch that has the largest timestamp."""
        return self._max_timestamp_offset if self.max_timestamp >= 0 else self.base_offset

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, at which segment.ms starts."""
        if self.first_timestamp_ms == UNKNOWN:
            if self.size < HEADER_SIZE:
                return NO_TIMESTAMP
            header = read_exactly(self._files.fs, self.file.acquire(), HEADER_SIZE, 0)
            self.first_timestamp_ms = int.from_bytes(header[35:43], "big", signed=True)
        return self.first_timestamp_ms

    # --- reading --------------------------------------------------------------------------------

    def find(self, offset: int) -> tuple[int, int, int] | None:
        """Position, base offset and size of the first batch that ends at or after `offset`."""
        entry = self._entry_before(offset)
        end = self.size
        position = entry[1] if entry else 0
        if position == 0:
            entry = None
        fd = self.file.acquire()
        while position < end:
            chunk = self._files.fs.pread(fd, WALK_BYTES, position)
            if entry is not None and not self._entry_matches(entry, chunk):
                entry, position = None, 0
                continue
            entry = None
            at, last = 0, len(chunk) - HEADER_SIZE
            if last < 0:
                raise self._damage_error(position)
            while at <= last:
                base_offset, length, delta = _WALK.unpack_from(chunk, at)
                if length < HEADER_SIZE - LOG_OVERHEAD or delta < 0:
                    raise self._damage_error(position + at)
                if base_offset + delta >= offset:
                    if position + at + length + LOG_OVERHEAD > end:
                        raise self._damage_error(position + at)
                    return position + at, base_offset, length + LOG_OVERHEAD
                at += length + LOG_OVERHEAD
            position += at
        if position > end:
            raise self._damage_error(end)
        return None

    def _entry_before(self, offset: int) -> tuple[int, int] | None:
        """The index entry at or before `offset`; None if the index is damaged or missing."""
        try:
            entry = self.index.floor(offset - self.base_offset)
        except (CorruptIndex, FileNotFoundError):
            log.warning(
                "offset index is damaged; reading the segment from its start",
                extra={"segment": self.path},
            )
            return None
        return entry if entry and 0 <= entry[1] < self.size else None

    def start_before(self, offset: int) -> int:
        """The position of a batch at or before `offset`."""
        return self._trusted_position(self._entry_before(offset))

    def start_before_position(self, position: int) -> int:
        """The position of a batch that is not past `position`."""
        try:
            return self._trusted_position(self.index.floor_value(position))
        except (CorruptIndex, FileNotFoundError):
            return 0

    def _trusted_position(self, entry: tuple[int, int] | None) -> int:
        """The position in an index entry if a batch begins there, else 0."""
        if entry is None:
            return 0
        head = self.read_some(entry[1], HEADER_SIZE)
        return entry[1] if self._entry_matches(entry, head) else 0

    def entry_start(self, entry: tuple[int, int]) -> int | None:
        """The offset of the batch that an index entry points at; None if the entry is wrong."""
        head = self.read_some(entry[1], HEADER_SIZE)
        return int(_WALK.unpack_from(head)[0]) if self._entry_matches(entry, head) else None

    def _entry_matches(self, entry: tuple[int, int], head: bytes) -> bool:
        """Whether `head` is the header of the batch that an index entry points at.

        With this check a damaged index costs a longer walk, but gives no wrong result.
        """
        if len(head) >= HEADER_SIZE and head[_MAGIC_AT] == MAGIC:
            first = self.base_offset
            base_offset, _, delta = _WALK.unpack_from(head)
            if first <= base_offset <= base_offset + delta <= first + entry[0]:
                return True
        log.warning(
            "index entry is damaged; reading the segment from its start",
            extra={"segment": self.path},
        )
        return False

    def read_some(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end, or if the file has become shorter."""
        if not 0 <= position < self.size:
            return b""
        size = min(size, self.size - position)
        return read_exactly(self._files.fs, self.file.acquire(), size, position)

    def read(self, position: int, size: int) -> bytes:
        data = self._files.fs.pread(self.file.acquire(), size, position)
        if len(data) < size:
            data += read_exactly(
                self._files.fs, self.file.acquire(), size - len(data), position + len(data)
            )
            if len(data) < size:
                raise self._damage_error(position + len(data))
        return data

    def headers_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Each batch's position and header, from the one at `position` to the end."""
        fs = self._files.fs
        while position < self.size:
            chunk = fs.pread(self.file.acquire(), WALK_BYTES, position)
            at = 0
            while at + HEADER_SIZE <= len(chunk):
                try:
                    header = read_header(chunk, at)
                except RecordError:
                    raise self._damage_error(position + at) from None
                if position + at + header.size > self.size:
                    raise self._damage_error(position + at)
                yield position + at, header
                at += header.size
            if at == 0:
                raise self._damage_error(position)
            position += at

    def next_offset(self) -> int:
        """The offset after the last batch, found by a walk from the last index entry."""
        offset = self.base_offset
        for _, header in self.headers_from(self._trusted_position(self.index.last())):
            offset = header.next_offset
        return offset

    def _damage_error(self, position: int) -> LogCorrupt:
        return LogCorrupt(
            f"{self.file.path} is damaged at byte {position} of {self.size}: not a whole batch"
        )

    # --- truncation ------------------------------------------------------------------------------

    def truncate(self, position: int, offset: int) -> None:
        """Truncates the file to `position`, where the batch with `offset` begins."""
        self._files.fs.truncate(self.file.acquire(create=True), position)
        self.size = position
        self.checked_from = min(self.checked_from, position)
        self.file.dirty = self.dirty = True
        self.index.truncate_keys(offset - self.base_offset)
        self.times.truncate_values(offset - self.base_offset)
        self.txns.truncate(offset)
        self._bytes_since_index = 0
        self._max_timestamp = UNKNOWN
        self._prepared = False
        self.first_timestamp_ms = UNKNOWN
        self._update_max_timestamp()

    def _update_max_timestamp(self) -> None:
        """Also reads the batches after the time index's last entry, which lags behind the log."""
        known = self.max_timestamp
        start = self.start_before(self._max_timestamp_offset)
        for _, header in self.headers_from(start):
            if header.max_timestamp > known:
                known = self._max_timestamp = header.max_timestamp
                self._max_timestamp_offset = header.last_offset

    def clear_indexes(self) -> None:
        """Empties the indexes; `index_batch` fills them again."""
        self.index.clear()
        self.times.clear()
        self.txns.clear()
        self._bytes_since_index = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._entries_in_memory = 0
        self.index_entries = 0  # counted when the segment is prepared for writing
        self.first_timestamp_ms = UNKNOWN

    def open_files(self) -> list[OpenFile]:
        return [self.file, self.index.file, self.times.file, self.txns.file]

    def close(self) -> None:
        for file in self.open_files():
            file.forget()
