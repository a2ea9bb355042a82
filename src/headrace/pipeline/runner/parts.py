"""What a flow is run with: everything that its spec names, opened."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.client.outcomes import TopicPartition
from headrace.pipeline.runner.checkpoint import Checkpoint
from headrace.pipeline.runner.opening import (
    DeadLetters,
    kafka_settings,
    open_dead_letters,
    open_sink,
)
from headrace.pipeline.runner.planner import PlanError
from headrace.pipeline.runner.source_log import SourceLog
from headrace.pipeline.sinks.table import Committed, TableSink
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.sources import TopicSource


@dataclass(frozen=True, slots=True)
class Parts:
    """One flow from topics to a table."""

    flow: Flow
    source: TopicSource
    log: SourceLog
    sink: TableSink
    dead_letters: DeadLetters | None
    checkpoint: Checkpoint
    kafka: Mapping[str, str]

    def held(self) -> Committed | None:
        """What the table says it holds of the partitions that there are."""
        return self.sink.last_commit(self.flow.id, list(self.log.look().bounds))

    def close(self) -> None:
        closing = getattr(self.sink, "close", None)  # a topic has connections, a table has none
        if closing is not None:
            closing()
        if self.dead_letters is not None:
            self.dead_letters.close()


def open_parts(
    flow: Flow, given: Mapping[str, str], ends: Mapping[TopicPartition, int] | None = None
) -> Parts:
    """With the client settings that the command line gives; reads no further than `ends`."""
    if not isinstance(flow.source, TopicSource):
        raise PlanError(f"{flow.id}: its source is no topic")
    kafka = kafka_settings(flow, given)
    return Parts(
        flow=flow,
        source=flow.source,
        log=SourceLog(flow.source, kafka, ends),
        sink=open_sink(flow, given),
        dead_letters=open_dead_letters(flow, kafka),
        checkpoint=Checkpoint(flow.checkpoint),
        kafka=kafka,
    )
