"""Which part of a log may be cleaned, and whether cleaning is due. Changes nothing.

Never cleaned are the active segment, records past the high watermark or the last stable offset,
records that are not synced (a record may be removed only if its successor is safe), and records
that are younger than `min.compaction.lag.ms`. Only whole segments are cleaned.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.storage.segment.segment import Segment
from headrace.storage.state.log_config import COMPACT, LogConfig


class LogToClean(NamedTuple):
    """The clean and the dirty part of a log; `overdue` refers to `max.compaction.lag.ms`."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        """Whether the log should be cleaned now."""
        if COMPACT not in config.cleanup_policy or not self.dirty_bytes:
            return False
        return self.overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio


def measure(
    segments: Sequence[Segment],
    config: LogConfig,
    now_ms: int,
    *,
    cleaned_to: int | None,
    log_start: int,
    log_end: int,
    limit: int,
) -> LogToClean:
    """The part of a log to clean; `cleaned_to` is the cleaner's checkpoint.

    `limit` is the first offset that is not stable or not synced.
    """
    first_dirty = log_start
    if cleaned_to is not None and log_start <= cleaned_to <= log_end:
        first_dirty = cleaned_to
    closed = list(segments[:-1])
    ends = [segment.base_offset for segment in segments[1:]]
    dirty = [each for each, end in zip(closed, ends, strict=True) if end > first_dirty]
    end = segments[-1].base_offset if segments else log_start
    for segment, segment_end in zip(closed, ends, strict=True):
        if segment_end > limit:
            end = segment.base_offset
            break
    if config.min_compaction_lag_ms > 0:
        newest_ms = now_ms - config.min_compaction_lag_ms
        young = (each.base_offset for each in dirty if each.newest_timestamp > newest_ms)
        end = min(end, next(young, end))
    end = max(end, first_dirty)
    return LogToClean(
        first_dirty=first_dirty,
        end=end,
        clean_bytes=sum(each.size for each in closed if each.base_offset < first_dirty),
        dirty_bytes=sum(each.size for each in dirty if each.base_offset < end),
        overdue=_is_overdue(dirty, config, now_ms),
    )


def _is_overdue(dirty: Sequence[Segment], config: LogConfig, now_ms: int) -> bool:
    """Whether a dirty record has waited for longer than `max.compaction.lag.ms`."""
    limit_ms = now_ms - config.max_compaction_lag_ms
    if limit_ms <= 0:
        return False
    return any(0 < segment.first_timestamp < limit_ms for segment in dirty)
