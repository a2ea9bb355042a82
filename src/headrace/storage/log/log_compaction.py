"""Compaction in the thread that owns the log: chooses segments to clean, and swaps the result in.

Everything here runs in the owner's thread, except where `Swap` says otherwise.
"""

from typing import NamedTuple

from headrace.storage.cleaning.cleaner_messages import (
    CleanedGroup,
    CleaningJob,
    LastProducerBatch,
    SourceSegment,
)
from headrace.storage.cleaning.log_to_clean import LogToClean, measure
from headrace.storage.cleaning.swap import Swap, replaceable
from headrace.storage.log.log import Log
from headrace.storage.segment.offset_index import ENTRY as OFFSET_ENTRY
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.time_index import ENTRY as TIME_ENTRY


class CleaningLimits(NamedTuple):
    """The memory and disk bandwidth that a cleaner may use."""

    max_keys: int
    read_bytes: int
    max_bytes_per_second: float


def cleanable(log: Log, now_ms: int, cleaned_to: int | None, stable_offset: int) -> LogToClean:
    """The part of the log that could be cleaned: below `stable_offset` and the recovery point."""
    local = log.local
    local.ensure_loaded()
    try:
        return measure(
            local.segments.items,
            local.config,
            now_ms,
            cleaned_to=cleaned_to,
            log_start=local.log_start_offset,
            log_end=local.log_end_offset,
            limit=min(stable_offset, local.durability.recovery_point),
        )
    except OSError as error:
        raise local.directory.fault(error, f"reading {local.name}") from error


def cleaning_job(
    log: Log, to_clean: LogToClean, now_ms: int, limits: CleaningLimits
) -> CleaningJob:
    """The job for a cleaner, in plain values."""
    local = log.local
    local.ensure_loaded()
    config, end = local.config, to_clean.end
    sources = [each for each in local.segments.items[:-1] if each.base_offset < end]
    return CleaningJob(
        path=local.path,
        segments=tuple(_source(segment) for segment in sources),
        first_dirty=to_clean.first_dirty,
        end=end,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        max_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        aborted=tuple(
            txn
            for segment in local.segments.items
            for txn in segment.txns.entries
            if txn.first_offset < end
        ),
        producers=tuple(
            LastProducerBatch(
                entry.producer_id,
                entry.batches[-1].last_offset if entry.batches else -1,
                entry.epoch,
            )
            for entry in local.producers.by_id.values()
        ),
        max_keys=limits.max_keys,
        read_bytes=limits.read_bytes,
        max_bytes_per_second=limits.max_bytes_per_second,
    )


def begin_swap(log: Log, group: CleanedGroup, job: CleaningJob) -> Swap | None:
    """The swap of a cleaned group, for the caller to complete; None if the log has changed."""
    local = log.local
    local.ensure_loaded()
    local.finish_swap()
    old = replaceable(local.segments, group)
    if old is None:
        return None
    sizes = {source.base_offset: source.size for source in job.segments}
    if any(sizes[segment.base_offset] != segment.size for segment in old):
        return None
    delay_ms = local.config.file_delete_delay_ms
    local.swap = Swap(local.segments, old, group, local.directory, delay_ms)
    return local.swap


def end_swap(log: Log, swap: Swap) -> None:
    """Called when the swap is complete: deletion and truncation no longer wait for it."""
    if log.local.swap is swap:
        log.local.finish_swap()


def _source(segment: Segment) -> SourceSegment:
    return SourceSegment(
        segment.base_offset,
        segment.size,
        len(segment.index) * OFFSET_ENTRY.size,
        len(segment.times) * TIME_ENTRY.size,
    )
