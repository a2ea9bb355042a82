"""The aborted transactions that end in one segment (`.txnindex`).

Kept in memory and written later, like the other indexes; the file exists only if a transaction was
aborted. Readers with read_committed isolation get the entries that overlap with their fetch.
"""

from struct import Struct

from headrace.records.checksum import crc32c
from headrace.storage.files.filesystem import exists, read_file, remove_if_exists, write_all
from headrace.storage.files.open_files import OpenFile, OpenFiles
from headrace.storage.segment.aborted_txn import AbortedTxn

ENTRY = Struct(">hqqqq")
VERSION = 0


class TxnIndex:
    """Entries in the order in which the transactions ended."""

    __slots__ = ("_entries", "_files", "_on_disk", "file")

    def __init__(self, files: OpenFiles, path: str, *, on_disk: bool) -> None:
        self.file = OpenFile(files, path)
        self._files = files
        self._entries: list[AbortedTxn] | None = None if on_disk else []
        self._on_disk = 0

    @property
    def entries(self) -> list[AbortedTxn]:
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    @property
    def is_empty(self) -> bool:
        return not self.entries

    @property
    def checksum(self) -> int:
        """The checksum of all entries, 0 if there are none."""
        return crc32c(b"".join(ENTRY.pack(VERSION, *txn) for txn in self.entries))

    def overlapping(self, from_offset: int, to_offset: int) -> tuple[list[AbortedTxn], bool]:
        """The transactions with records in [from_offset, to_offset), and whether these are all.

        Later segments cannot add one once the last stable offset at an entry reaches `to_offset`.
        """
        found = []
        for txn in self.entries:
            if txn.last_offset >= from_offset and txn.first_offset < to_offset:
                found.append(txn)
            if txn.last_stable_offset >= to_offset:
                return found, True
        return found, False

    def append(self, txn: AbortedTxn) -> None:
        self.entries.append(txn)

    def write_behind(self) -> None:
        """Completes the file."""
        if self._entries is None or self._on_disk == len(self._entries):
            return
        data = b"".join(ENTRY.pack(VERSION, *txn) for txn in self._entries[self._on_disk :])
        fd = self.file.acquire(create=True)
        write_all(self._files.fs, fd, data, self._on_disk * ENTRY.size)
        self.file.dirty = True
        self._on_disk = len(self._entries)

    def truncate(self, offset: int) -> None:
        """Forgets the transactions that ended at or past `offset`."""
        kept = [txn for txn in self.entries if txn.last_offset < offset]
        if len(kept) < self._on_disk:
            self._files.fs.truncate(self.file.acquire(), len(kept) * ENTRY.size)
            self.file.dirty = True
            self._on_disk = len(kept)
        self._entries = kept

    def clear(self) -> None:
        """Removes all entries, and the file."""
        self.file.forget()
        remove_if_exists(self._files.fs, self.file.path)
        self._entries = []
        self._on_disk = 0

    def is_sane(self, base_offset: int) -> bool:
        return all(txn.last_offset >= base_offset for txn in self.entries)

    def _load(self) -> list[AbortedTxn]:
        if not exists(self._files.fs, self.file.path):
            return []
        data = read_file(self._files.fs, self.file.path)
        self._on_disk = len(data) // ENTRY.size
        whole = self._on_disk * ENTRY.size
        return [AbortedTxn(*fields[1:]) for fields in ENTRY.iter_unpack(data[:whole])]
