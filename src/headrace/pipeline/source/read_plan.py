"""Turns options into offsets: the start and the end of a read, and its division into tasks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headrace.client.results import TopicPartition
from headrace.name_suggestion import nearest_name
from headrace.pipeline.core.offsets import EARLIEST, LATEST, OffsetRange, split
from headrace.pipeline.source.admin import NO_RECORD, LogAdmin, all_partitions
from headrace.pipeline.source.options import SourceOptions, Where
from headrace.pipeline.source.settings import DataLost, ReadFailed

RECORDS_PER_TASK: Final = 1_000_000
"""By default, several tasks read a partition with a longer backlog."""
SHARED_TASK_OFFSETS: Final = 1_000
"""Partitions with a shorter backlog share a task, up to this number of offsets. Starting a task and
writing its own file in a table costs more than reading the records. The limit is low enough that
one task can also read large records."""


def find_partitions(admin: LogAdmin, options: SourceOptions) -> Sequence[TopicPartition]:
    """The partitions that the options select now; a topic that is given by name must exist."""
    if options.partitions:
        return options.partitions
    if options.pattern:
        return all_partitions(admin.topics(options.matches))
    everything = admin.topics(lambda name: True)
    for name in options.topics:
        if name not in everything:
            raise ReadFailed(missing_topic(name, everything))
    return all_partitions({name: everything[name] for name in options.topics})


def missing_topic(name: str, existing: Iterable[str]) -> str:
    """The error about a topic that does not exist."""
    near = nearest_name(name, existing)
    hint = "Create it, or correct the name" if near is None else f"Did you mean {near!r}?"
    return f"no topic {name!r}. {hint}"


def resolve(
    admin: LogAdmin, where: Where, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Finds an offset for each partition."""
    if where.timestamp_ms is not None:
        return _at_times(admin, where, dict.fromkeys(partitions, where.timestamp_ms))
    if where.timestamps_ms:
        times = {
            each: where.timestamps_ms[each] for each in _all_of(where.timestamps_ms, partitions)
        }
        return _at_times(admin, where, times)
    if where.offsets:
        named = _all_of(where.offsets, partitions)
        wanted = {each: where.offsets[each] for each in named}
    else:
        wanted = dict.fromkeys(partitions, where.default)
    first = [each for each, offset in wanted.items() if offset == EARLIEST]
    last = [each for each, offset in wanted.items() if offset == LATEST]
    return {
        **wanted,
        **(admin.earliest(first) if first else {}),
        **(admin.latest(last) if last else {}),
    }


def _all_of(
    named: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition]
) -> Sequence[TopicPartition]:
    """As in Spark, given offsets must cover every selected partition and no other."""
    missing = sorted(set(partitions) - set(named))
    if missing:
        raise ReadFailed(
            f"offsets are given for some partitions, but not for {', '.join(map(str, missing))}"
        )
    unknown = sorted(set(named) - set(partitions))
    if unknown:
        raise ReadFailed(f"offsets are given for {', '.join(map(str, unknown))}, which is not read")
    return partitions


def _at_times(
    admin: LogAdmin, where: Where, times_ms: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    found = admin.at_times(times_ms)
    late = [each for each, offset in found.items() if offset == NO_RECORD]
    if not late:
        return found
    if where.late_is_error:
        raise ReadFailed(
            f"{', '.join(map(str, sorted(late)))}: no record is as new as the starting timestamp. "
            "Set startingOffsetsByTimestampStrategy to latest to start at the end"
        )
    return {**found, **admin.latest(late)}


def batch_ranges(admin: LogAdmin, options: SourceOptions) -> list[OffsetRange]:
    """The ranges that one batch read covers."""
    if options.ranges:
        return list(options.ranges)
    partitions = find_partitions(admin, options)
    start = resolve(admin, options.start, partitions)
    end = resolve(admin, options.end, partitions)
    return checked(admin, start, end, fail_on_data_loss=options.fail_on_data_loss)


def checked(
    admin: LogAdmin,
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    *,
    fail_on_data_loss: bool,
) -> list[OffsetRange]:
    """Checks that the log still contains the ranges.

    If retention has removed records, this is an error, or the range is shortened.
    """
    first = admin.earliest(start)
    ranges = []
    for each, offset in sorted(start.items()):
        if offset < first[each]:
            if fail_on_data_loss:
                raise DataLost(
                    f"{each}: offsets {offset} to {first[each]} were deleted unread. "
                    "Set failOnDataLoss to false to go on with what is there"
                )
            offset = first[each]
        ranges.append(OffsetRange(each.topic, each.partition, offset, max(offset, end[each])))
    return ranges


def tasks(ranges: Iterable[OffsetRange], options: SourceOptions) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task, by minPartitions and maxRecordsPerPartition."""
    wanted = [each for each in ranges if each.size]
    if options.min_partitions is not None:
        wanted = split(wanted, options.min_partitions)
    most = options.max_records_per_partition or RECORDS_PER_TASK
    pieces = [piece for each in wanted for piece in split([each], -(-each.size // most))]
    if options.min_partitions is not None:
        return [(piece,) for piece in pieces]
    return _grouped_ranges(pieces, min(SHARED_TASK_OFFSETS, most))


def _grouped_ranges(pieces: Iterable[OffsetRange], most: int) -> list[tuple[OffsetRange, ...]]:
    """Groups adjacent ranges while they have at most `most` offsets together."""
    together: list[tuple[OffsetRange, ...]] = []
    size = 0
    for piece in pieces:
        if together and size + piece.size <= most:
            together[-1] += (piece,)
            size += piece.size
        else:
            together.append((piece,))
            size = piece.size
    return together
