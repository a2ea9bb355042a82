"""The summary of a run, for callers from Python and for the last lines of the display."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.client.results import TopicPartition
from headrace.pipeline.runner.events import Event, EventKind


@dataclass(slots=True)
class FlowSummary:
    """The results of one flow in a run."""

    flow: str
    batches: int = 0
    rows: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    """The number of bad records by error class."""
    dead_letters: int = 0
    skipped: int = 0
    seconds: float = 0.0
    """The total time of the batches."""
    caught_up: bool = False
    version: str = ""
    """The table version of the last batch."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The next offset to read, by partition."""
    lag: int = 0
    failure: str | None = None
    """The reason why the flow failed."""

    def add(self, event: Event) -> None:
        if event.offsets:
            self.offsets = dict(event.offsets)
            self.lag = sum(event.lag.values())
        self.version = event.version or self.version
        match event.kind:
            case EventKind.BATCH:
                self.batches += 1
                self.rows += event.rows
                self.bad.update(event.bad)
                self.dead_letters += event.dead_letters
                self.skipped += event.skipped
                self.seconds += event.seconds
            case EventKind.CAUGHT_UP:
                self.caught_up = True
            case EventKind.FAILED:
                self.failure = event.message

    def __str__(self) -> str:
        """Returns the summary as one line."""
        aside = f", {self.dead_letters:,} dead letters" if self.dead_letters else ""
        skipped = f", {self.skipped:,} skipped" if self.skipped else ""
        at = f", version {self.version}" if self.version else ""
        batches = "1 batch" if self.batches == 1 else f"{self.batches:,} batches"
        return f"{self.flow}: {self.rows:,} rows in {batches}{aside}{skipped}{at}, lag {self.lag:,}"


class RunSummary:
    """The summaries of all flows of a run. It is a listener of the run's events."""

    def __init__(self) -> None:
        self.flows: dict[str, FlowSummary] = {}
        """The summaries by flow id: `<pipeline>`, or `<pipeline>.<flow>` if it has several."""

    def __call__(self, event: Event) -> None:
        self.flows.setdefault(event.flow, FlowSummary(event.flow)).add(event)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.flows.values())

    @property
    def dead_letters(self) -> int:
        return sum(each.dead_letters for each in self.flows.values())

    @property
    def batches(self) -> int:
        return sum(each.batches for each in self.flows.values())

    @property
    def caught_up(self) -> bool:
        """Whether every flow has written all records that existed at the start."""
        return bool(self.flows) and all(each.caught_up for each in self.flows.values())

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self.flows.values())

    def __repr__(self) -> str:
        return f"<RunSummary {self}>"
