"""Estimates the size of records from a sample, for limits in bytes."""

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.record_reader import read_range
from headrace.pipeline.source.settings import ReadSettings

SAMPLE_RECORDS: Final = 1000
SAMPLE_FETCH_BYTES: Final = 1 << 20
"""The size of one fetch from one partition. A larger batch is still returned whole."""


def average_record_bytes(ranges: Sequence[OffsetRange], settings: ReadSettings) -> float | None:
    """The average size of a key and a value; None if the sample has no record.

    Records differ between topics but hardly between partitions of one topic, so the longest range
    of each topic is sampled for all of its partitions. Raises `ReadFailed`.
    """
    settings = settings._replace(
        fetch_bytes=SAMPLE_FETCH_BYTES, with_headers=False, with_damage=True
    )
    offsets: dict[str, int] = {}
    longest: dict[str, OffsetRange] = {}
    for each in ranges:
        offsets[each.topic] = offsets.get(each.topic, 0) + each.size
        longest[each.topic] = max(longest.get(each.topic, each), each, key=lambda one: one.size)
    found = {
        topic: size
        for topic, wanted in longest.items()
        if wanted.size and (size := _sampled_record_bytes(wanted, settings)) is not None
    }
    return weighted(found, offsets)


def weighted(sizes: Mapping[str, float], counts: Mapping[str, int]) -> float | None:
    """The average over all topics, weighted by their numbers of records."""
    total = sum(counts[topic] for topic in sizes)
    if not total:
        return None
    return sum(size * counts[topic] for topic, size in sizes.items()) / total


def _sampled_record_bytes(wanted: OffsetRange, settings: ReadSettings) -> float | None:
    few = wanted._replace(end=min(wanted.end, wanted.start + SAMPLE_RECORDS))
    chunk = next(read_range(few, settings, fail_on_data_loss=False), None)
    return None if chunk is None else (chunk.key_bytes + chunk.value_bytes) / len(chunk)
