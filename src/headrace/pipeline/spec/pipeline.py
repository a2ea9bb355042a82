"""A whole spec: one flow, or several in one application."""

from typing import Final, Literal, Self

from pydantic import Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from headrace.pipeline.spec.flow import (
    DeadLetter,
    Expectation,
    Flow,
    FlowSpec,
    Name,
    OnError,
    Step,
)
from headrace.pipeline.spec.sinks import Sink
from headrace.pipeline.spec.sources import Source
from headrace.pipeline.spec.spec_rules import problems_of
from headrace.pipeline.spec.spec_values import Location, Settings, TemplatePart, Trigger

WITHOUT_RULES: Final = "without_rules"
"""A key of pydantic's validation context: the caller checks the rules itself."""


class PipelineSpec(TemplatePart):
    """The file that `headrace pipeline run` reads: one flow (`source` and `sink`) or several
    (`flows`)."""

    version: Literal[1] = 1
    """The version of the spec's format."""
    pipeline: Name
    """The pipeline's name. The consumer group and the table commits carry it."""
    kafka: Settings = Settings()
    """Client settings by Kafka's names: `bootstrap.servers`, `security.protocol`, ..."""
    source: Source | None = None
    """Where records come from."""
    transform: tuple[Step, ...] = ()
    """The steps between source and sink, in order."""
    expect: tuple[Expectation, ...] = ()
    """Rules that every row must meet."""
    sink: Sink | None = None
    """Where rows go."""
    dead_letter: DeadLetter | None = None
    """Where bad records go."""
    on_error: OnError | None = None
    """What happens to a record that cannot be read. The default is `dead_letter` if there is a
    dead-letter topic, else `fail`."""
    trigger: Trigger = "10s"
    """The time between two batches, such as `10s` or `1h`; `once` runs one round and ends."""
    checkpoint: Location = Field(default="checkpoints", validate_default=True)
    """The directory for pinned schemas, staged files and the run history. One pipeline owns it."""
    spark: Settings = Settings()
    """Spark's configuration."""
    flows: tuple[FlowSpec, ...] = ()
    """Several flows in one Spark application, instead of `source` and `sink`."""

    @model_validator(mode="after")
    def _follows_the_rules(self, info: ValidationInfo) -> Self:
        if (info.context or {}).get(WITHOUT_RULES):
            return self
        problems = problems_of(self)
        if problems:
            raise PydanticCustomError(
                "rules",
                "{text}",
                {"text": "; ".join(each.message for each in problems), "problems": problems},
            )
        return self

    def resolved(self) -> tuple[Flow, ...]:
        """The flows, each with what it inherits from the pipeline."""
        if self.source is not None and self.sink is not None:
            only = FlowSpec(
                name=self.pipeline,
                source=self.source,
                transform=self.transform,
                expect=self.expect,
                sink=self.sink,
            )
            return (self._flow(only, self.pipeline, self.checkpoint),)
        return tuple(
            self._flow(each, f"{self.pipeline}.{each.name}", f"{self.checkpoint}/{each.name}")
            for each in self.flows
        )

    def _flow(self, flow: FlowSpec, flow_id: str, checkpoint: str) -> Flow:
        dead_letter = flow.dead_letter or self.dead_letter
        return Flow(
            id=flow_id,
            source=flow.source,
            transform=flow.transform,
            expect=flow.expect,
            sink=flow.sink,
            dead_letter=dead_letter,
            on_error=flow.on_error
            or self.on_error
            or ("fail" if dead_letter is None else "dead_letter"),
            trigger=flow.trigger or self.trigger,
            checkpoint=checkpoint,
            kafka=self.kafka,
        )
