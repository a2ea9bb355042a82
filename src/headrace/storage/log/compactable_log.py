"""A log that can be compacted: what there is to clean, and the new segments' way in."""

from dataclasses import dataclass

from headrace.storage.cleaning.cleaning_plan import Cleanable, measure
from headrace.storage.cleaning.job import (
    CleanedGroup,
    CleaningJob,
    LastOfProducer,
    SourceSegment,
)
from headrace.storage.cleaning.swap import Swap, replaceable
from headrace.storage.log.shrinkable_log import ShrinkableLog
from headrace.storage.segment.offset_index import ENTRY as OFFSET_ENTRY
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.time_index import ENTRY as TIME_ENTRY


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningLimits:
    """How much a cleaner may use."""

    max_keys: int
    read_bytes: int
    max_bytes_per_second: float


class CompactableLog(ShrinkableLog):
    """Everything here belongs to the owner's thread, except what `Swap` says of itself."""

    __slots__ = ()

    def cleanable(self, now_ms: int, cleaned_to: int | None, stable_offset: int) -> Cleanable:
        """What could be cleaned; `stable_offset` bounds it, as what is on disk does."""
        self._ready()
        try:
            return measure(
                self._files.fs,
                self._segments.items,
                self.config,
                now_ms,
                cleaned_to=cleaned_to,
                log_start=self.log_start_offset,
                log_end=self.log_end_offset,
                limit=min(stable_offset, self.recovery_point),
            )
        except OSError as error:
            raise self.directory.fault(error, f"reading {self.name}") from error

    def cleaning_job(
        self, cleanable: Cleanable, now_ms: int, limits: CleaningLimits
    ) -> CleaningJob:
        """The work that a cleaner is to do, in plain values."""
        self._ready()
        end = cleanable.end
        sources = [each for each in self._segments.items[:-1] if each.base_offset < end]
        return CleaningJob(
            path=self.path,
            segments=tuple(_source(segment) for segment in sources),
            first_dirty=cleanable.first_dirty,
            end=end,
            now_ms=now_ms,
            delete_retention_ms=self.config.delete_retention_ms,
            segment_bytes=self.config.segment_bytes,
            max_index_bytes=self.config.segment_index_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
            aborted=tuple(
                txn
                for segment in self._segments.items
                for txn in segment.txns.entries
                if txn.first_offset < end
            ),
            producers=tuple(
                LastOfProducer(
                    entry.producer_id,
                    entry.batches[-1].last_offset if entry.batches else -1,
                    entry.epoch,
                )
                for entry in self._producers.by_id.values()
            ),
            max_keys=limits.max_keys,
            read_bytes=limits.read_bytes,
            max_bytes_per_second=limits.max_bytes_per_second,
        )

    def begin_swap(self, group: CleanedGroup, job: CleaningJob) -> Swap | None:
        """The swap of a cleaned group, to be driven to its end; None if the log has changed."""
        self._ready()
        self._finish_swap()
        old = replaceable(self._segments, group)
        if old is None:
            return None
        sizes = {source.base_offset: source.size for source in job.segments}
        if any(sizes[segment.base_offset] != segment.size for segment in old):
            return None
        delay_ms = self.config.file_delete_delay_ms
        self._swap = Swap(self._segments, old, group, self.directory, delay_ms)
        return self._swap

    def end_swap(self, swap: Swap) -> None:
        """The swap is done: deletion and truncation need not mind it any more."""
        if self._swap is swap:
            self._finish_swap()


def _source(segment: Segment) -> SourceSegment:
    return SourceSegment(
        segment.base_offset,
        segment.size,
        len(segment.index) * OFFSET_ENTRY.size,
        len(segment.times) * TIME_ENTRY.size,
    )
