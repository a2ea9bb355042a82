"""The delivery results of the records that `headrace produce` sent."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.cli.output import Counter
from headrace.cli.records.broker_errors import BrokerErrors

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

MAX_NAMED_FAILURES: Final = 3
BATCH_OVERHEAD_BYTES: Final = 61
"""The size of a record batch header, which the limit includes."""


@dataclass(slots=True)
class Deliveries:
    """The delivery results so far."""

    topic: str
    max_bytes: int | None
    """The topic's max.message.bytes, if known."""
    counter: Counter
    errors: BrokerErrors
    delivered: int = 0
    failed: int = 0
    timed_out: bool = False
    reasons: list[str] = field(default_factory=list)
    more_reasons: bool = False
    hint: str = ""
    offsets: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By partition: number of records, first offset, last offset."""

    def note_of(self, size: int) -> "Callable[[KafkaError | None, Message], None]":
        """The delivery callback for a record of `size` bytes."""
        return lambda error, message: self.note(error, message, size)

    def note(self, error: "KafkaError | None", message: "Message", size: int) -> None:
        """Counts a record that was written, or that failed."""
        self.counter.advance(1)
        if error is not None:
            self.refuse(error, size)
            return
        self.delivered += 1
        partition, offset = message.partition() or 0, message.offset() or 0
        count, first, last = self.offsets.get(partition, (0, offset, offset))
        self.offsets[partition] = (count + 1, min(first, offset), max(last, offset))

    def refuse(self, error: "KafkaError", size: int) -> None:
        """Counts a record that failed."""
        self.failed += 1
        reason = self._reason(error, size)
        if reason in self.reasons:
            return
        if len(self.reasons) < MAX_NAMED_FAILURES:
            self.reasons.append(reason)
        else:
            self.more_reasons = True

    @property
    def why(self) -> str:
        """All reasons as one sentence."""
        more = ["and more"] if self.more_reasons else []
        hint = [self.hint] if self.hint else []
        return "; ".join([*self.reasons, *more, *hint])

    def _reason(self, error: "KafkaError", size: int) -> str:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            limit = "the limit" if self.max_bytes is None else "max.message.bytes"
            number = "" if self.max_bytes is None else f" ({self.max_bytes:,})"
            if self.max_bytes is not None and size <= self.max_bytes:
                size += BATCH_OVERHEAD_BYTES
            return f"{size:,} bytes exceeds {limit}{number} of topic {self.topic!r}"
        if error.code() == KafkaError._MSG_TIMED_OUT:
            self.timed_out = True
            last = self.errors.last
            return f"timed out; last broker error: {last}" if last else "timed out: no answer"
        return str(error.str())
