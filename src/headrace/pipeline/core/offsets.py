"""Ranges of offsets: which to read, how many at a time, and by how many tasks. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.client.results import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1

Offsets = Mapping[TopicPartition, int]


class OffsetRange(NamedTuple):
    """The records of one partition with start <= offset < end."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets. Records may be fewer: compaction and markers leave gaps."""
        return max(0, self.end - self.start)


class BadOffsets(ValueError):
    """A text does not contain valid offsets."""


def offsets_to_json(offsets: Offsets) -> str:
    """The JSON that Spark uses: `{"topic": {"0": 5, "1": 7}}`."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(by_topic)


def offsets_from_json(text: str) -> dict[TopicPartition, int]:
    """Parses the output of `offsets_to_json`; -2 means earliest and -1 means latest."""
    example = '{"topic": {"0": 5, "1": -2}}'
    try:
        by_topic = json.loads(text)
        return {
            TopicPartition(topic, int(partition)): _valid_offset(offset)
            for topic, partitions in by_topic.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise BadOffsets(f"{text!r} does not have the form {example} ({error})") from None


def partitions_from_json(text: str) -> list[TopicPartition]:
    """Parses the JSON of Spark's option `assign`: `{"topic": [0, 1]}`."""
    try:
        by_topic = json.loads(text)
        return [
            TopicPartition(topic, int(partition))
            for topic, partitions in by_topic.items()
            for partition in partitions
        ]
    except (ValueError, AttributeError, TypeError) as error:
        form = '{"topic": [0, 1]}'
        raise BadOffsets(f"{text!r} does not have the form {form} ({error})") from None


def _valid_offset(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < EARLIEST:
        raise ValueError(f"{value!r} is not an offset")
    return value


def limited(ranges: Sequence[OffsetRange], max_offsets: int) -> list[OffsetRange]:
    """The ranges, shortened to about `max_offsets` in total, in proportion to their sizes.

    Every partition with a backlog advances by at least one offset, so that none starves.
    """
    total = sum(each.size for each in ranges)
    if total <= max_offsets:
        return list(ranges)
    share = max_offsets / total
    return [
        each._replace(end=each.start + min(each.size, max(1, int(each.size * share))))
        if each.size
        else each
        for each in ranges
    ]


def split(ranges: Iterable[OffsetRange], pieces: int) -> list[OffsetRange]:
    """About `pieces` ranges of similar size. Ranges are split, never joined."""
    wanted = [each for each in ranges if each.size]
    total = sum(each.size for each in wanted)
    if not wanted:
        return []
    size = max(1, -(-total // max(pieces, 1)))
    made = []
    for each in wanted:
        parts = max(1, round(each.size / size)) if len(wanted) < pieces else 1
        for part in range(parts):
            start = each.start + each.size * part // parts
            end = each.start + each.size * (part + 1) // parts
            made.append(each._replace(start=start, end=end))
    return made
