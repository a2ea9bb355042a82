"""Which segments become one. Pure.

Compaction leaves segments small; neighbours are written into one new segment as long as their sum
fits into `segment.bytes`, their indexes into `segment.index.bytes` and their offsets into 31 bits.
"""

from collections.abc import Sequence

from headrace.storage.cleaning.job import SourceSegment

MAX_RELATIVE_OFFSET = 2**31 - 1
# Swapping a group in renames each file of its segments on the event loop: a few milliseconds.
MAX_SEGMENTS = 64


def group_segments(
    segments: Sequence[SourceSegment], end: int, *, segment_bytes: int, max_index_bytes: int
) -> list[list[SourceSegment]]:
    """Neighbours that fit together, in order; `end` is the offset after the last segment."""
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
