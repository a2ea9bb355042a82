"""Reads the committed records of a dead-letter topic, in order of partition and offset."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.dead_letters.headers import Facts, facts_of
from headrace.pipeline.source.admin import LogAdmin, all_partitions
from headrace.pipeline.source.record_reader import read_range
from headrace.pipeline.source.settings import ReadFailed, ReadSettings
from headrace.records.record import Headers, Record


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
    """The letters of these ranges. Memory is bounded by the size of one fetch."""
    for each in ranges:
        if not each.size:
            continue
        for chunk in read_range(each, settings._replace(with_headers=True)):
            keys, values = chunk.key, chunk.value
            offsets = chunk.offset.to_pylist()
            times = chunk.timestamp_ms.to_pylist()
            assert chunk.headers is not None
            for at in range(len(chunk)):
                headers: Headers = tuple(
                    (pair["key"], pair["value"]) for pair in chunk.headers[at].as_py()
                )
                record = Record(
                    offsets[at], times[at], keys[at].as_py(), values[at].as_py(), headers
                )
                yield Letter(each.topic_partition, record, facts_of(headers))
