"""Which segments are merged into one. Pure.

Compaction makes segments small. Neighbours are merged while their sizes fit into `segment.bytes`,
their indexes into `segment.index.bytes` and their relative offsets into 31 bits.
"""

from collections.abc import Sequence

from headrace.storage.cleaning.cleaner_messages import SourceSegment
from headrace.storage.segment.segment import MAX_RELATIVE_OFFSET

# Swapping a group in renames each file of its segments on the event loop: a few milliseconds.
MAX_SEGMENTS = 64


def group_segments(
    segments: Sequence[SourceSegment], end: int, *, segment_bytes: int, max_index_bytes: int
) -> list[list[SourceSegment]]:
    """Groups of neighbours, in order; `end` is the offset after the last segment."""
    groups: list[list[SourceSegment]] = []
    size = index_bytes = times_bytes = 0
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    for segment, segment_end in zip(segments, ends, strict=False):
        size += segment.size
        index_bytes += segment.index_bytes
        times_bytes += segment.times_bytes
        if (
            groups
            and len(groups[-1]) < MAX_SEGMENTS
            and size <= segment_bytes
            and max(index_bytes, times_bytes) <= max_index_bytes
            and segment_end - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, index_bytes, times_bytes = segment[1:]
    return groups
