"""A limit on the bytes of consecutive records, enforced by the task that reads them."""

from typing import NamedTuple

from headrace.records.arrow.columns import RecordArrays


class RecordsTooLarge(Exception):
    """A group of consecutive records is larger than the byte limit."""


class ByteLimit(NamedTuple):
    """The number of records in a group, and the group's largest size. Picklable."""

    records: int
    size_bytes: int


class ByteLimitWatch:
    """Counts the bytes of a task's chunks in order.

    The count restarts after the number of records in a group. A group overlaps at most two counts,
    so its size is at most twice the limit, or two chunks.
    """

    def __init__(self, bound: ByteLimit) -> None:
        self._bound = bound
        self._records = self._bytes = 0

    def add_chunk(self, chunk: RecordArrays) -> None:
        """Adds a chunk to the count; raises `RecordsTooLarge` if the limit is exceeded."""
        if self._records >= self._bound.records:
            self._records = self._bytes = 0
        self._records += len(chunk)
        self._bytes += chunk.key_bytes + chunk.value_bytes  # includes headers
        # If the chunk has many small records, a group is only part of it.
        part = min(1.0, self._bound.records / max(1, self._records))
        if self._bytes * part > self._bound.size_bytes:
            raise RecordsTooLarge(
                f"{self._records} records in a row have {self._bytes} bytes: Spark has to measure "
                "what it collects"
            )
