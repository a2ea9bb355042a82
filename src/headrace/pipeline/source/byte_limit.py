"""A limit on what consecutive records may weigh together, kept by the task that reads them."""

from typing import NamedTuple

from headrace.records.arrow.columns import RecordArrays


class RecordsTooLarge(Exception):
    """The records are too large for whoever takes them so many at a time."""


class ByteLimit(NamedTuple):
    """So many records are taken at a time, and may have so many bytes; picklable."""

    records: int
    size_bytes: int


class ByteLimitWatch:
    """Looks at a task's chunks, one after the other.

    Records are counted until there are as many as are taken at a time, and then anew. What is taken
    at a time lies in two such counts, and so weighs at most twice the limit, or two chunks.
    """

    def __init__(self, bound: ByteLimit) -> None:
        self._bound = bound
        self._records = self._bytes = 0

    def look(self, chunk: RecordArrays) -> None:
        """Raises `RecordsTooLarge`."""
        if self._records >= self._bound.records:
            self._records = self._bytes = 0
        self._records += len(chunk)
        self._bytes += chunk.key_bytes + chunk.value_bytes  # those of headers among them
        # Of a chunk of many small records only a part is taken at a time.
        part = min(1.0, self._bound.records / max(1, self._records))
        if self._bytes * part > self._bound.size_bytes:
            raise RecordsTooLarge(
                f"{self._records} records in a row have {self._bytes} bytes: Spark has to measure "
                "what it collects"
            )
