"""Which segments retention deletes. This module only decides; `truncation` deletes them."""

from itertools import zip_longest

from headrace.storage.segment.segment import Segment
from headrace.storage.segment.segments import Segments
from headrace.storage.state.log_config import DELETE, LogConfig


def deletable_segments(
    segments: Segments,
    config: LogConfig,
    now_ms: int,
    *,
    log_start: int,
    log_end: int,
    high_watermark: int,
    is_follower: bool,
) -> list[Segment]:
    """The oldest segments that can be deleted; also the active one, if all its records can be.

    Segments below the log's start are deleted under any policy. Time and size count only with
    cleanup.policy=delete, and only at the leader: the leader moves the log's start, and followers
    copy it. Records at or past the high watermark are never deleted.
    """
    items = segments.items
    by_policy = DELETE in config.cleanup_policy and not is_follower
    excess = 0
    if by_policy and config.retention_bytes >= 0:
        excess = segments.size_bytes - config.retention_bytes
    doomed: list[Segment] = []
    for segment, following in zip_longest(items, items[1:]):
        end = following.base_offset if following else None
        expired = by_policy and _is_expired(segment, config, now_ms)
        too_much = by_policy and config.retention_bytes >= 0 and excess >= segment.size
        if end is None:
            dropped = log_start >= log_end
            if segment.size and (dropped or expired or too_much) and high_watermark >= log_end:
                doomed.append(segment)
            break
        if end > high_watermark or not (end <= log_start or expired or too_much):
            break
        excess -= segment.size
        doomed.append(segment)
    return doomed


def _is_expired(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    return config.retention_ms >= 0 and now_ms - segment.newest_timestamp > config.retention_ms
