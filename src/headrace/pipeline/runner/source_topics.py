"""The topics of a flow, their bounds, the flow's start position, and its consumer group."""

from collections.abc import Mapping, Sequence

from headrace.client.results import TopicPartition
from headrace.pipeline.batch.planner import PlanError, SourceBounds, StartPosition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.admin import NO_RECORD, LogAdmin, all_partitions
from headrace.pipeline.source.options import read_options
from headrace.pipeline.source.read_plan import missing_topic
from headrace.pipeline.source.sampling import average_record_bytes
from headrace.pipeline.source.settings import ReadSettings
from headrace.pipeline.spec.sources import StartOffsets, StartTimestamp, TopicSource


def source_read_settings(source: TopicSource, kafka: Mapping[str, str]) -> ReadSettings:
    """How the records of the source are read."""
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    return read_options({**options, **_choice(source)}, streaming=False).read


def _choice(source: TopicSource) -> dict[str, str]:
    if source.pattern is not None:
        return {"subscribePattern": source.pattern}
    return {"subscribe": ",".join(source.topics)}


class SourceTopics:
    """The requests of one flow to its cluster."""

    def __init__(
        self,
        source: TopicSource,
        kafka: Mapping[str, str],
        ends: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._source = source
        self._ends = ends
        options = {f"kafka.{name}": value for name, value in kafka.items()}
        self._options = read_options({**options, **_choice(source)}, streaming=False)
        self._admin = LogAdmin(self._options.read)

    def read_bounds(self) -> SourceBounds:
        """Returns the topics that exist, with the first and the end offset of each partition."""
        source = self._source
        if source.pattern is not None:
            layouts = self._admin.topics(self._options.matches)
        else:
            layouts = self._admin.topics(lambda name: name in source.topics)
        partitions = all_partitions(layouts)
        first = self._admin.earliest(partitions) if partitions else {}
        end = self._admin.latest(partitions) if partitions else {}
        return SourceBounds(
            {topic: layout.topic_id.hex() for topic, layout in layouts.items()},
            self._within({each: (first[each], max(first[each], end[each])) for each in first}),
        )

    def _within(
        self, bounds: dict[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Limits the bounds to the end offsets of the run, if it has any."""
        if self._ends is None:
            return bounds
        return {
            each: (first, max(first, min(end, self._ends[each])))
            for each, (first, end) in bounds.items()
            if each in self._ends
        }

    def begin(self, log: SourceBounds) -> StartPosition:
        """Returns the start position of a new flow.

        Raises `PlanError` if a topic does not exist.
        """
        for name in self._source.topics:
            if name not in log.topic_ids:
                raise PlanError(missing_topic(name, self._admin.topics(lambda _: True)))
        return StartPosition(log.topic_ids, self._starts(log))

    def _starts(self, log: SourceBounds) -> dict[TopicPartition, int]:
        match self._source.start:
            case StartOffsets() as start:
                return {each: self._named(start, each, log) for each in log.bounds}
            case StartTimestamp() as start:
                time_ms = int(start.timestamp.timestamp() * 1000)
                found = self._admin.at_times(dict.fromkeys(log.bounds, time_ms))
                return {
                    each: log.bounds[each][1] if offset == NO_RECORD else offset
                    for each, offset in found.items()
                }
            case "latest":
                return {each: end for each, (_, end) in log.bounds.items()}
            case _:
                return {each: first for each, (first, _) in log.bounds.items()}

    def _named(self, start: StartOffsets, partition: TopicPartition, log: SourceBounds) -> int:
        first, end = log.bounds[partition]
        offset = start.offsets.get(partition.topic, {}).get(partition.partition, first)
        if offset > end:
            raise PlanError(f"start: {partition} ends at {end}, so it cannot start at {offset}")
        return offset

    def record_bytes(self, ranges: Sequence[OffsetRange]) -> float | None:
        """Returns the average size of records in these ranges, from a sample."""
        return average_record_bytes(ranges, self._options.read)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits the group's offsets, so that Kafka tools show the flow's position."""
        self._admin.commit(group, offsets)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        return {each: at.offset for each, at in self._admin.committed(group).items()}
