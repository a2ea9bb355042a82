"""The segment that a cleaner writes: `.cleaned` files, synced before they are reported."""

from headrace.records.batch_header import BatchHeader
from headrace.records.buffer import Buffer
from headrace.storage.cleaning.segment_reader import Pace, Uncleanable
from headrace.storage.files.filesystem import FileSystem, remove_if_exists, write_all, write_file
from headrace.storage.segment.aborted_txn import AbortedTxn
from headrace.storage.segment.offset_index import ENTRY as OFFSET_ENTRY
from headrace.storage.segment.segment import (
    CLEANED,
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
)
from headrace.storage.segment.time_index import ENTRY as TIME_ENTRY
from headrace.storage.segment.txn_index import ENTRY as TXN_ENTRY
from headrace.storage.segment.txn_index import VERSION as TXN_VERSION

# Batches are collected until they have this size.
WRITE_BYTES = 1 << 20
# The largest position that an index entry can hold.
MAX_POSITION = 2**31 - 1


class CleanedOutput:
    """One new segment."""

    def __init__(
        self, fs: FileSystem, directory: str, base_offset: int, interval_bytes: int, pace: Pace
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._path = f"{directory}/{file_name(base_offset, '')}"
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._pace = pace
        self._fd = fs.open(self._path + LOG + CLEANED, create=True)
        fs.truncate(self._fd, 0)
        self._pieces: list[Buffer] = []
        self._gathered = 0
        self._written = 0
        self._bytes_since_index = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self._last_indexed_time = -1
        self._index = bytearray()
        self._times = bytearray()
        self._txns = b""

    @property
    def size(self) -> int:
        return self._written + self._gathered

    @property
    def index_bytes(self) -> int:
        return len(self._index)

    @property
    def times_bytes(self) -> int:
        return len(self._times)

    @property
    def has_txns(self) -> bool:
        return bool(self._txns)

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Appends a batch, with the index entries that an append to a log makes."""
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            self._max_timestamp_offset = header.last_offset
        size = len(batch)
        if self._bytes_since_index > self._interval_bytes:
            if self.size > MAX_POSITION:
                raise Uncleanable(f"{self._path} would be larger than {MAX_POSITION} bytes")
            self._index += OFFSET_ENTRY.pack(header.last_offset - self._base_offset, self.size)
            self._add_time_entry()
            self._bytes_since_index = 0
        self._bytes_since_index += size
        self._pieces.append(batch)
        self._gathered += size
        if self._gathered >= WRITE_BYTES:
            self._write_batches()

    def _add_time_entry(self) -> None:
        if self._max_timestamp > self._last_indexed_time:
            self._last_indexed_time = self._max_timestamp
            relative = self._max_timestamp_offset - self._base_offset
            self._times += TIME_ENTRY.pack(self._max_timestamp, relative)

    def _write_batches(self) -> None:
        write_all(self._fs, self._fd, b"".join(self._pieces), self._written)
        self._pace(self._gathered)
        self._written += self._gathered
        self._pieces.clear()
        self._gathered = 0

    def finish(self, aborted: list[AbortedTxn]) -> None:
        """Completes and syncs the files and their names."""
        self._write_batches()
        self._add_time_entry()
        self._txns = b"".join(TXN_ENTRY.pack(TXN_VERSION, *txn) for txn in aborted)
        self._fs.fsync(self._fd)
        write_file(self._fs, self._path + OFFSET_INDEX + CLEANED, bytes(self._index), sync=True)
        write_file(self._fs, self._path + TIME_INDEX + CLEANED, bytes(self._times), sync=True)
        if self._txns:
            write_file(self._fs, self._path + TXN_INDEX + CLEANED, self._txns, sync=True)
        self._fs.fsync_dir(self._directory)

    def close(self) -> None:
        self._fs.close(self._fd)

    def discard(self) -> None:
        """Removes the unfinished file."""
        remove_if_exists(self._fs, self._path + LOG + CLEANED)
