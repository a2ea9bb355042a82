"""A file of sorted pairs: the common form of the offset index and the time index.

Pairs are appended to arrays in memory and written to the file later, in blocks: a full disk can
refuse a block, but an append never fails because of its index. A search reads the arrays first,
then bisects the file, so neither memory nor the time to open grows with the index. The file may lag
behind the log: recovery rebuilds it, and `write_behind` completes it when its segment is rolled or
closed.
"""

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from headrace.storage.errors import CorruptIndex
from headrace.storage.files.filesystem import read_exactly, remove_if_exists, write_all
from headrace.storage.files.open_files import OpenFile, OpenFiles

# Entries in memory; above this, the older half is written to the file. With one entry for each
# 4 KiB of log this covers the newest 4 MiB, where nearly all reads are.
MAX_ENTRIES_IN_MEMORY = 1024


class IndexFile:
    """Pairs (key, value), both ascending."""

    __slots__ = ("_codes", "_entry", "_files", "_keys", "_last_key", "_on_disk", "_values", "file")

    def __init__(
        self, files: OpenFiles, path: str, entry: Struct, codes: tuple[str, str], size_bytes: int
    ) -> None:
        self.file = OpenFile(files, path)
        self._files = files
        self._entry = entry
        self._codes = codes
        self._on_disk = size_bytes // entry.size
        self._keys: array[int] = array(codes[0])
        self._values: array[int] = array(codes[1])
        self._last_key: int | None = None if self._on_disk else -1

    def __len__(self) -> int:
        return self._on_disk + len(self._keys)

    @property
    def in_memory(self) -> int:
        return len(self._keys)

    def append(self, key: int, value: int) -> None:
        self._keys.append(key)
        self._values.append(value)
        self._last_key = key

    def spill(self) -> None:
        """Writes the older half of the entries in memory, if there are too many."""
        if len(self._keys) > MAX_ENTRIES_IN_MEMORY:
            self._write(MAX_ENTRIES_IN_MEMORY // 2)

    @property
    def last_key(self) -> int:
        """The key of the last entry, -1 if there is none."""
        if self._last_key is None:
            last = self.last()
            self._last_key = last[0] if last else -1
        return self._last_key

    def last(self) -> tuple[int, int] | None:
        if self._keys:
            return self._keys[-1], self._values[-1]
        return self._read(self._on_disk - 1) if self._on_disk else None

    def entry(self, number: int) -> tuple[int, int]:
        if number >= self._on_disk:
            number -= self._on_disk
            return self._keys[number], self._values[number]
        return self._read(number)

    def floor(self, key: int) -> tuple[int, int] | None:
        """The last entry whose key is at most `key`."""
        keys = self._keys
        if keys and keys[0] <= key:
            slot = bisect_right(keys, key) - 1
            return keys[slot], self._values[slot]
        count = bisect_right(range(self._on_disk), key, key=lambda number: self._read(number)[0])
        return self._read(count - 1) if count else None

    def truncate_values(self, value: int) -> None:
        """Removes every entry whose value is at least `value`."""
        self._truncate(bisect_left(range(len(self)), value, key=lambda n: self.entry(n)[1]))

    def truncate_keys(self, key: int) -> None:
        """Removes every entry whose key is at least `key`."""
        self._truncate(bisect_left(range(len(self)), key, key=lambda n: self.entry(n)[0]))

    def clear(self) -> None:
        """Removes all entries, and the file."""
        del self._keys[:]
        del self._values[:]
        self._on_disk = 0
        self._last_key = -1
        self.file.forget()
        remove_if_exists(self._files.fs, self.file.path)

    def write_behind(self) -> None:
        """Writes all entries to the file, creating it if needed, and frees the memory."""
        self._write(len(self._keys))

    def _truncate(self, count: int) -> None:
        in_memory = max(0, count - self._on_disk)
        del self._keys[in_memory:]
        del self._values[in_memory:]
        if count < self._on_disk:
            self._files.fs.truncate(self.file.acquire(), count * self._entry.size)
            self._on_disk = count
            self.file.dirty = True
        self._last_key = None

    def _write(self, count: int) -> None:
        fd = self.file.acquire(create=True)
        self.file.dirty = True
        if not count:
            return
        data = b"".join(map(self._entry.pack, self._keys[:count], self._values[:count]))
        write_all(self._files.fs, fd, data, self._on_disk * self._entry.size)
        self._on_disk += count
        del self._keys[:count]
        del self._values[:count]

    def _read(self, number: int) -> tuple[int, int]:
        size = self._entry.size
        data = read_exactly(self._files.fs, self.file.acquire(), size, number * size)
        if len(data) < size:
            raise CorruptIndex(f"{self.file.path} ends before entry {number}")
        key, value = self._entry.unpack(data)
        return key, value
