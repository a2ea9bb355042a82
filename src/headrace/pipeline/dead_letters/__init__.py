"""Dead letters, the records that a pipeline cannot use: writing, listing and replaying them."""

from collections.abc import Mapping

from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.dead_letters.dead_letter_writer import DeadLetterWriter
from headrace.pipeline.producer import producer_settings
from headrace.pipeline.spec.flow import Flow

__all__ = ["DeadLetterWriter", "open_dead_letters"]


def open_dead_letters(flow: Flow, kafka: Mapping[str, str]) -> DeadLetterWriter:
    """The writer for the dead-letter topic of a flow."""
    assert flow.dead_letter is not None, "the spec names a topic for dead letters"
    checkpoint = Checkpoint(flow.checkpoint).path
    return DeadLetterWriter(flow.dead_letter.topic, producer_settings(kafka), flow.id, checkpoint)
