"""The open resources of a flow."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.client.results import TopicPartition
from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.batch.planner import PlanError
from headrace.pipeline.runner.flow_factory import (
    DeadLetterSettings,
    kafka_settings,
    open_dead_letters,
    open_sink,
)
from headrace.pipeline.runner.source_topics import SourceTopics
from headrace.pipeline.sinks.table_sink import CommittedBatch, TableSink
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.sources import TopicSource


@dataclass(frozen=True, slots=True)
class FlowContext:
    """The open resources of one flow from topics to a table."""

    flow: Flow
    source: TopicSource
    log: SourceTopics
    sink: TableSink
    dead_letters: DeadLetterSettings | None
    checkpoint: Checkpoint
    kafka: Mapping[str, str]

    def last_commit(self) -> CommittedBatch | None:
        """Returns the last batch in the table, for the partitions that exist now."""
        return self.sink.last_commit(self.flow.id, list(self.log.read_bounds().bounds))

    def close(self) -> None:
        closing = getattr(self.sink, "close", None)  # only a topic sink has connections
        if closing is not None:
            closing()
        if self.dead_letters is not None:
            self.dead_letters.close()


def open_flow_context(
    flow: Flow, given: Mapping[str, str], ends: Mapping[TopicPartition, int] | None = None
) -> FlowContext:
    """Opens the resources of a flow. `given` overrides its client settings.

    With `ends`, the flow reads no further than these offsets.
    """
    if not isinstance(flow.source, TopicSource):
        raise PlanError(f"{flow.id}: its source is not a topic")
    kafka = kafka_settings(flow, given)
    return FlowContext(
        flow=flow,
        source=flow.source,
        log=SourceTopics(flow.source, kafka, ends),
        sink=open_sink(flow, given),
        dead_letters=open_dead_letters(flow, kafka),
        checkpoint=Checkpoint(flow.checkpoint),
        kafka=kafka,
    )
