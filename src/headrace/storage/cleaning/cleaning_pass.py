"""One compaction pass over one log, in a worker process.

First the dirty part is read, to find the latest offset of each key, as far as memory allows. Then
the log is read again from its start and written to new segments, without records that later ones
replace. Each new segment is reported as soon as it is on disk, for the broker to swap it in. The
pass can be stopped at any point: it writes `.cleaned` files only.
"""

from collections.abc import Iterator, Sequence

from headrace.records.batch_header import BatchHeader
from headrace.records.errors import RecordError
from headrace.storage.cleaning.aborted_transactions import CleanedTransactionMetadata
from headrace.storage.cleaning.batch_filter import BatchFilter
from headrace.storage.cleaning.cleaned_segment import CleanedOutput
from headrace.storage.cleaning.cleaner_messages import (
    CleanedGroup,
    CleanedLog,
    CleaningJob,
    SourceSegment,
)
from headrace.storage.cleaning.key_map import KeyMap
from headrace.storage.cleaning.segment_groups import group_segments
from headrace.storage.cleaning.segment_reader import Pace, Uncleanable, batches, payload_of
from headrace.storage.files.filesystem import FileSystem, remove_if_exists
from headrace.storage.segment.segment import CLEANED, LOG, file_name
from headrace.storage.state.leader_epochs import MAX_OFFSET


def without_throttle(_size: int) -> None:
    """No limit on the speed."""


def clean(
    fs: FileSystem, job: CleaningJob, pace: Pace = without_throttle
) -> Iterator[CleanedGroup | CleanedLog]:
    """Cleans a log: yields each group of segments when it is ready, then the end of the job.

    Raises `Uncleanable` if the log cannot be cleaned, and `OSError` if a file operation fails.
    """
    try:
        yield from _CleaningPass(fs, job, pace).groups()
    except RecordError as error:
        raise Uncleanable(f"{job.path}: {error}") from error


class _CleaningPass:
    def __init__(self, fs: FileSystem, job: CleaningJob, pace: Pace) -> None:
        self._fs = fs
        self._job = job
        bases = [segment.base_offset for segment in job.segments]
        self._ends = dict(zip(bases, [*bases[1:], MAX_OFFSET], strict=False))
        self._slow_down = pace
        self._bytes_read = 0
        self._bytes_written = 0

    def groups(self) -> Iterator[CleanedGroup | CleanedLog]:
        job = self._job
        self._remove_leftovers()
        keys = self._map_keys()
        keys.complete()
        transactions = CleanedTransactionMetadata(job.aborted)
        batch_filter = BatchFilter(
            keys,
            transactions,
            job.producers,
            end=job.end,
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
        )
        below = [segment for segment in job.segments if segment.base_offset < keys.end]
        self._bytes_read = 0
        for group in group_segments(
            below,
            job.end,
            segment_bytes=job.segment_bytes,
            max_index_bytes=job.max_index_bytes,
        ):
            yield self._clean_group(group, batch_filter, transactions)
        yield CleanedLog(keys.end, self._bytes_read, self._bytes_written)

    def _remove_leftovers(self) -> None:
        """Removes older `.cleaned` files, which must not mix with the new ones."""
        for name, is_dir in self._fs.list_dir(self._job.path):
            if name.endswith(CLEANED) and not is_dir:
                remove_if_exists(self._fs, f"{self._job.path}/{name}")

    def _map_keys(self) -> KeyMap:
        job = self._job
        keys = KeyMap(job.first_dirty, job.max_keys)
        transactions = CleanedTransactionMetadata(
            txn for txn in job.aborted if txn.last_offset >= job.first_dirty
        )
        ends = [*(segment.base_offset for segment in job.segments[1:]), job.end]
        for segment, end in zip(job.segments, ends, strict=False):
            if end <= job.first_dirty:
                continue
            self._map_segment(segment, keys, transactions)
            if keys.is_full and keys.end < job.end:
                break
            keys.end = end  # compaction may have left a gap at the segment's end
        return keys

    def _map_segment(
        self, segment: SourceSegment, keys: KeyMap, transactions: CleanedTransactionMetadata
    ) -> None:
        for chunk, at, header in self._batches(segment):
            if header.last_offset < keys.first:
                continue
            if header.is_control:
                transactions.on_control_batch_read(header, memoryview(chunk)[at : at + header.size])
            elif not transactions.on_batch_read(header) and header.record_count:
                keys.add(header, *payload_of(chunk, at, header))
            keys.end = header.next_offset
            if keys.is_full:
                return

    def _clean_group(
        self,
        group: Sequence[SourceSegment],
        batch_filter: BatchFilter,
        transactions: CleanedTransactionMetadata,
    ) -> CleanedGroup:
        job = self._job
        output = CleanedOutput(
            self._fs, job.path, group[0].base_offset, job.index_interval_bytes, self._pace_write
        )
        transactions.indexed.clear()
        unchanged = len(group) == 1
        try:
            for segment in group:
                for chunk, at, header in self._batches(segment):
                    kept = batch_filter.filter_batch(header, chunk, at)
                    if kept is None:
                        unchanged = False
                        continue
                    if kept[0] is not header:
                        unchanged = False
                    output.add(*kept)
            sources = tuple(segment.base_offset for segment in group)
            if unchanged:
                output.discard()
                return CleanedGroup(sources, group[0].size, 0, 0, False, unchanged=True)
            output.finish(transactions.indexed)
        except BaseException:
            output.discard()
            raise
        finally:
            output.close()
        return CleanedGroup(
            sources, output.size, output.index_bytes, output.times_bytes, output.has_txns
        )

    def _batches(self, segment: SourceSegment) -> Iterator[tuple[bytes, int, BatchHeader]]:
        return batches(
            self._fs,
            f"{self._job.path}/{file_name(segment.base_offset, LOG)}",
            segment.size,
            segment.base_offset,
            self._ends[segment.base_offset],
            read_bytes=self._job.read_bytes,
            pace=self._pace_read,
        )

    def _pace_read(self, size: int) -> None:
        self._bytes_read += size
        self._slow_down(size)

    def _pace_write(self, size: int) -> None:
        self._bytes_written += size
        self._slow_down(size)
