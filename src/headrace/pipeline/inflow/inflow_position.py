"""How far a flow from files or a table has come, and how a person lets it read on elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.pipeline.batch.checkpoint import Checkpoint
from headrace.pipeline.inflow.batch_intent import NO_BATCH, BatchIntent, BatchIntents
from headrace.pipeline.inflow.input import Input, InputProgress, ResetTarget, open_input
from headrace.pipeline.runner.flow_factory import open_sink
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch, TableSink
from headrace.pipeline.spec.flow import Flow


@dataclass(frozen=True, slots=True)
class Inflow:
    """One flow from files or a table into a topic, opened."""

    flow: Flow
    inputs: Input
    sink: TableSink
    checkpoint: Checkpoint

    def held(self) -> CommittedBatch | None:
        """What the topic says it holds."""
        return self.sink.last_commit(self.flow.id, [])

    def standing(self) -> InputProgress:
        """What was read and what is there."""
        return self.inputs.standing(self.read())

    def read(self) -> list[BatchIntent]:
        """The batches whose input is not to be read again."""
        held = self.held()
        last = held.batch_id if held is not None else NO_BATCH
        intents = BatchIntents(self.checkpoint.path)
        begun = intents.get(last + 1)
        return [begun] if begun is not None and begun.is_anew else intents.until(last)

    def reset(self, to: ResetTarget) -> CommittedBatch | None:
        """The next batch reads on from there; records that are in the topic stay there.

        That is an empty batch: what it stands for is written down, then the topic is told. If this
        is interrupted between the two, the next run finds it written down and goes on with it, as
        it does where nothing was sent yet and the topic may not even exist.
        """
        with self.checkpoint.locked(self.flow.id):
            held = self.held()
            batch_id = (held.batch_id if held is not None else NO_BATCH) + 1
            BatchIntents(self.checkpoint.path).save(self.inputs.moved(batch_id, to))
            if held is None:
                return None
            return self.sink.commit(BatchInfo(self.flow.id, batch_id, ()), [])

    def close(self) -> None:
        closing = getattr(self.sink, "close", None)
        if closing is not None:
            closing()


def open_inflow(flow: Flow, given: Mapping[str, str]) -> Inflow:
    """With the client settings that the command line gives."""
    return Inflow(
        flow, open_input(flow.source), open_sink(flow, given), Checkpoint(flow.checkpoint)
    )
