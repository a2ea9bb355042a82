"""A whole spec: one flow, or several in one application."""

from typing import Literal, Self

from pydantic import Field, model_validator
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


class PipelineSpec(TemplatePart):
    """Topics into tables, or files into topics: what `headrace pipeline run` is given."""

    version: Literal[1] = 1
    pipeline: Name
    kafka: Settings = Settings()
    """Client settings by Kafka's names: `bootstrap.servers`, `security.protocol`, ..."""
    source: Source | None = None
    transform: tuple[Step, ...] = ()
    expect: tuple[Expectation, ...] = ()
    sink: Sink | None = None
    dead_letter: DeadLetter | None = None
    on_error: OnError | None = None
    trigger: Trigger = "10s"
    checkpoint: Location = Field(default="checkpoints", validate_default=True)
    """A directory for pinned schemas, staged files and the run history."""
    spark: Settings = Settings()
    """Spark's configuration."""
    flows: tuple[FlowSpec, ...] = ()

    @model_validator(mode="after")
    def _follows_the_rules(self) -> Self:
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
