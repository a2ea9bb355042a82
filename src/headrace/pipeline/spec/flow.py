"""One flow: a source, the steps and rules for its rows, and a sink."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from headrace.pipeline.spec.sinks import Sink
from headrace.pipeline.spec.sources import Source, TopicName
from headrace.pipeline.spec.spec_values import (
    PythonName,
    Settings,
    TemplatePart,
    Trigger,
    seconds_of,
)

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,200}$")]
Action = Literal["drop", "fail", "dead_letter"]
OnError = Literal["fail", "skip", "dead_letter"]
Scope = Annotated[
    Literal["row", "batch"],
    Field(
        description="What the step may look at: one row at a time (row), or all rows of a batch "
        "(batch). A step that groups, deduplicates, ranks, sorts or limits rows needs batch, and "
        "its result is then that of each batch by itself."
    ),
]


class SqlStep(TemplatePart):
    """A SELECT over `source`."""

    sql: str = Field(min_length=1)
    """The statement."""
    scope: Scope = "row"
    """`row` refuses SQL that combines several rows; `batch` allows it within one batch."""


class PythonStep(TemplatePart):
    """A function from DataFrame to DataFrame."""

    python: PythonName = Field(pattern=r"^.+:[A-Za-z_][A-Za-z0-9_]*$")
    """`module:function` or `file.py:function`."""
    scope: Scope = "row"


def _step_of(value: object) -> str | None:
    for name, kind in (("sql", SqlStep), ("python", PythonStep)):
        if isinstance(value, kind) or (isinstance(value, dict) and name in value):
            return f"<{name}>"
    return None


Step = Annotated[
    Annotated[SqlStep, Tag("<sql>")] | Annotated[PythonStep, Tag("<python>")],
    Discriminator(
        _step_of,
        custom_error_type="step",
        custom_error_message="is not a step",
    ),
]


class Expectation(TemplatePart):
    """A rule that every row must meet. A row for which it is false or null fails the rule."""

    name: Name
    """The rule's name in dead letters, metrics and messages."""
    sql: str = Field(min_length=1)
    """A condition over the columns of a row."""
    on_fail: Action = "fail"
    """What happens to a row that fails: it is dropped, it stops the run, or its record is
    dead-lettered."""


class DeadLetter(TemplatePart):
    """Where bad records go."""

    topic: TopicName
    """The dead-letter topic. It is created if it does not exist."""


class Flow(TemplatePart):
    """A flow together with everything that it inherits from its pipeline.

    `id` identifies the flow in the consumer group, in table commits and in the checkpoint.
    """

    id: Name
    source: Source
    transform: tuple[Step, ...] = ()
    expect: tuple[Expectation, ...] = ()
    sink: Sink
    dead_letter: DeadLetter | None = None
    on_error: OnError = "fail"
    trigger: Trigger = "10s"
    checkpoint: str
    kafka: Settings = Settings()

    @property
    def trigger_s(self) -> float | None:
        """Seconds between two batches; None = once."""
        return None if self.trigger == "once" else seconds_of(self.trigger)

    def kafka_settings(self, own: Settings | None = None) -> dict[str, str]:
        """Client settings with their secrets filled in. Do not print them."""
        return {**self.kafka.resolved(), **(own or Settings()).resolved()}


class FlowSpec(TemplatePart):
    """One of several flows of a pipeline. What it leaves out, it inherits from the pipeline."""

    name: Name
    """The flow's name, unique in the pipeline."""
    source: Source
    """Where records come from."""
    transform: tuple[Step, ...] = ()
    """The steps between source and sink, in order."""
    expect: tuple[Expectation, ...] = ()
    """Rules that every row must meet."""
    sink: Sink
    """Where rows go."""
    dead_letter: DeadLetter | None = None
    """Where bad records go."""
    on_error: OnError | None = None
    """What happens to a record that cannot be read."""
    trigger: Trigger | None = None
    """The time between two batches."""
