"""The position of a flow from files or a table: shows it and resets it."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.inflow.batch_intent import NO_BATCH, BatchIntent, BatchIntents
from headrace.pipeline.inflow.inputs import Input, InputProgress, ResetTarget, open_input
from headrace.pipeline.runner.flow_factory import open_sink
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch, TableSink
from headrace.pipeline.spec.flow import Flow


@dataclass(frozen=True, slots=True)
class Inflow:
    """An open flow from files or a table into a topic."""

    flow: Flow
    inputs: Input
    sink: TableSink
    checkpoint: Checkpoint

    def last_commit(self) -> CommittedBatch | None:
        """The last batch in the topic, by the topic's marker."""
        return self.sink.last_commit(self.flow.id, [])

    def progress(self) -> InputProgress:
        """The progress of reading."""
        return self.inputs.progress(self.read())

    def read(self) -> list[BatchIntent]:
        """The batches whose input is not read again."""
        held = self.last_commit()
        last = held.batch_id if held is not None else NO_BATCH
        intents = BatchIntents(self.checkpoint.path)
        begun = intents.get(last + 1)
        return [begun] if begun is not None and begun.is_anew else intents.until(last)

    def reset(self, to: ResetTarget) -> CommittedBatch | None:
        """Moves the position, so that the next batch reads from there. The topic keeps its records.

        A reset is an empty batch: its intent is saved, then the batch is committed to the topic. If
        the reset is interrupted in between, the next run finds the intent and commits the batch.
        Before the first batch the topic may not exist, so the next run commits the batch.
        """
        with self.checkpoint.locked(self.flow.id):
            held = self.last_commit()
            batch_id = (held.batch_id if held is not None else NO_BATCH) + 1
            BatchIntents(self.checkpoint.path).save(self.inputs.reset_intent(batch_id, to))
            if held is None:
                return None
            return self.sink.commit(BatchInfo(self.flow.id, batch_id, ()), [])

    def close(self) -> None:
        closing = getattr(self.sink, "close", None)
        if closing is not None:
            closing()


def open_inflow(flow: Flow, given: Mapping[str, str]) -> Inflow:
    """Opens the flow with the client settings of the command line."""
    return Inflow(
        flow, open_input(flow.source), open_sink(flow, given), Checkpoint(flow.checkpoint)
    )
