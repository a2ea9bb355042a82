"""Which segments a cleaner merges into one."""

from headrace.storage.cleaning.cleaner_messages import SourceSegment
from headrace.storage.cleaning.segment_groups import MAX_SEGMENTS, group_segments


def segments(*sizes: int, step: int = 10, index: int = 0, times: int = 0) -> list[SourceSegment]:
    return [SourceSegment(n * step, size, index, times) for n, size in enumerate(sizes)]


def grouped(
    sources: list[SourceSegment], end: int, *, size: int = 100, index: int = 1 << 20
) -> list[list[int]]:
    groups = group_segments(sources, end, segment_bytes=size, max_index_bytes=index)
    return [[segment.base_offset for segment in group] for group in groups]


def test_neighbours_are_merged_while_they_fit_into_a_segment() -> None:
    assert grouped(segments(50, 50, 1, 99, 100, 0, 101, 5), 80) == [
        [0, 10],
        [20, 30],
        [40, 50],
        [60],
        [70],
    ]
    assert grouped([], 0) == []


def test_neighbours_are_merged_while_their_indexes_fit() -> None:
    assert grouped(segments(1, 1, 1, index=8), 30, index=16) == [[0, 10], [20]]
    assert grouped(segments(1, 1, 1, times=12), 30, index=24) == [[0, 10], [20]]


def test_offsets_must_fit_into_an_index_entry() -> None:
    half = 2**30
    assert grouped(segments(1, 1, 1, step=half), 3 * half) == [[0, half], [2 * half]]
    assert grouped(segments(1, 1, step=half), 2 * half + 1) == [[0], [half]]


def test_a_group_is_small_enough_to_be_swapped_at_once() -> None:
    groups = grouped(segments(*[0] * (MAX_SEGMENTS + 1)), 10 * MAX_SEGMENTS + 10)
    assert [len(group) for group in groups] == [MAX_SEGMENTS, 1]
