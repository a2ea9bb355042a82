"""Every offset range is read by one task, and tiny ranges share a task."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.options import read_options
from headrace.pipeline.source.read_plan import RECORDS_PER_TASK, SHARED_TASK_OFFSETS, tasks

SIZES = st.lists(
    st.integers(0, 3 * SHARED_TASK_OFFSETS) | st.just(RECORDS_PER_TASK + 1), max_size=10
)


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", index, 7, 7 + size) for index, size in enumerate(sizes)]


def planned(wanted: list[OffsetRange], **options: str) -> list[tuple[OffsetRange, ...]]:
    given_options = {"kafka.bootstrap.servers": "here", "subscribe": "t", **options}
    return tasks(wanted, read_options(given_options, streaming=False))


def test_short_backlogs_share_a_task() -> None:
    half = SHARED_TASK_OFFSETS // 2
    first, second, third, long = wanted = ranges(half, half, 1, SHARED_TASK_OFFSETS + 1)
    assert planned(wanted) == [(first, second), (third,), (long,)]


def test_a_requested_number_of_tasks_is_used() -> None:
    wanted = ranges(10, 10, 10)
    assert planned(wanted, minPartitions="3") == [(each,) for each in wanted]


def test_a_task_reads_at_most_the_requested_number_of_records() -> None:
    planned_tasks = planned(ranges(10, 10, 10), maxRecordsPerPartition="20")
    assert [sum(each.size for each in task) for task in planned_tasks] == [20, 10]


@settings(deadline=None)
@given(SIZES)
def test_every_offset_is_read_by_one_task_in_order(sizes: list[int]) -> None:
    wanted = ranges(*sizes)
    read: dict[int, int] = {}
    for task in planned(wanted):
        for each in task:
            assert each.start == read.get(each.partition, 7)
            read[each.partition] = each.end
    assert read == {each.partition: each.end for each in wanted if each.size}
