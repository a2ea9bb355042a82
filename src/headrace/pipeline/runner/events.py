"""Events of a run, one per batch and a few more, for displays, metrics and the history."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange, offsets_to_json


class EventKind(StrEnum):
    """The kind of an event."""

    STARTED = "started"
    BEGUN = "begun"
    """A batch has started. `offsets_read` is the number of offsets that it will read."""
    BATCH = "batch"
    IDLE = "idle"
    RETRY = "retry"
    WARNING = "warning"
    SCHEMA = "schema"
    """An inferred schema has new columns. The batch is read again with them."""
    UPKEEP = "upkeep"
    FAILED = "failed"
    STOPPING = "stopping"
    """A stop was requested. The current batch is finished first."""
    STOPPED = "stopped"
    CAUGHT_UP = "caught_up"


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a flow."""

    flow: str
    kind: EventKind
    time_s: float = field(default_factory=time.time)
    batch_id: int | None = None
    offsets_read: int = 0
    """The number of offsets.

    It may exceed the number of records: compaction and markers leave gaps.
    """
    rows: int = 0
    bad: Mapping[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    skipped: int = 0
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    version: str = ""
    """The table version that contains the batch."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The next offset to read, by partition."""
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    message: str = ""
    ranges: tuple[OffsetRange, ...] = ()
    """What a batch that has begun will read; not part of `facts`."""

    def facts(self) -> dict[str, object]:
        """Returns the event for JSON, without empty fields.

        Offsets and lag are grouped by topic and partition.
        """
        facts: dict[str, object] = asdict(self)
        facts["time"] = _iso(self.time_s)
        del facts["time_s"], facts["ranges"]
        facts["seconds"] = round(self.seconds, 3)
        facts["phases"] = {name: round(spent, 3) for name, spent in self.phases.items()}
        facts["bad"] = dict(self.bad)
        facts["offsets"] = json.loads(offsets_to_json(self.offsets))
        facts["lag"] = json.loads(offsets_to_json(self.lag))
        order = ["time", "flow", "kind"]
        return {
            name: facts[name]
            for name in (*order, *(each for each in facts if each not in order))
            if name in order or facts[name] not in ("", None, {}, 0, 0.0) or _always(self, name)
        }


def _always(event: Event, name: str) -> bool:
    return event.kind is EventKind.BATCH and name in ("batch_id", "rows")


def _iso(time_s: float) -> str:
    whole, part = divmod(round(time_s * 1000), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{part:03}Z"


Report = Callable[[Event], None]
