"""Reads the committed records of a dead-letter topic, in order of partition and offset."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.dead_letters.headers import Facts, facts_of
from headrace.pipeline.source.admin import LogAdmin, all_partitions
from headrace.pipeline.source.plain_records import read_records
from headrace.pipeline.source.settings import ReadFailed, ReadSettings
from headrace.records.record import Record


class Letter(NamedTuple):
    """One dead letter: its partition, the record, and the facts in its headers."""

    at: TopicPartition
    record: Record
    facts: Facts

    @property
    def offset(self) -> int:
        return self.record.offset


def letter_ranges(admin: LogAdmin, topic: str) -> list[OffsetRange]:
    """All current offsets of the topic; raises `ReadFailed` if the topic does not exist."""
    partitions = all_partitions(admin.topics(lambda name: name == topic))
    if not partitions:
        raise ReadFailed(f"there is no topic {topic}: no pipeline has written dead letters to it")
    first, last = admin.earliest(partitions), admin.latest(partitions)
    return [OffsetRange(*each, first[each], last[each]) for each in partitions]


def read_letters(settings: ReadSettings, ranges: Sequence[OffsetRange]) -> Iterator[Letter]:
    """The letters of these ranges. Memory is bounded by the size of a few fetches."""
    for partition, record in read_records(ranges, settings):
        yield Letter(partition, record, facts_of(record.headers))
