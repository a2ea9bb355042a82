"""The loop of `headrace consume`: reads batches from partitions, or as a member of a group.

`Ends` decides when the run is complete; it does not use a Kafka client. `ConsumeLoop` feeds it the
records of a consumer. With `exit_at_end`, the run ends when every partition of the current
assignment has reached its end. It never hangs: without any event it fails after a time limit.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.cli.exit_codes import CommandFailed
from headrace.cli.records.format_string import PrintableRecord
from headrace.client.results import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message
    from confluent_kafka import TopicPartition as Assigned

BATCH: Final = 500
POLL_S: Final = 0.2  # delay until Ctrl-C takes effect, and until records of a slow topic appear
# With -e: the time without any event before the run asks the broker, and before it fails.
ASK_AFTER_S: Final = 20.0
GIVE_UP_AFTER_S: Final = 60.0
# A member without partitions may get some in the next step of a cooperative rebalance.
EMPTY_GRACE_S: Final = 3.0


@dataclass(slots=True)
class Ends:
    """The partitions that are being read, and those that are done."""

    stops: Mapping[TopicPartition, int] = field(default_factory=dict)
    """By partition: the offset to stop before."""
    until_ms: int | None = None
    """A record at or after this time ends its partition."""
    exit_at_end: bool = False
    assigned: set[TopicPartition] | None = None
    done: set[TopicPartition] = field(default_factory=set)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Adds partitions to those that are being read."""
        self.assigned = (self.assigned or set()) | set(partitions)

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Removes partitions that now belong to another member."""
        gone = set(partitions)
        self.assigned = (self.assigned or set()) - gone
        self.done -= gone

    def accept(self, partition: TopicPartition, offset: int, timestamp_ms: int) -> bool:
        """Whether a record is in the requested range; marks its partition as done at the end."""
        stop = self.stops.get(partition)
        late = self.until_ms is not None and timestamp_ms >= self.until_ms
        if late or (stop is not None and offset >= stop):
            self.done.add(partition)
            return False
        if stop is not None and offset == stop - 1:
            self.done.add(partition)
        elif stop is None and self.until_ms is None:
            self.done.discard(partition)
        return True

    def reopen(self, topic: str, partitions: Iterable[int]) -> None:
        """Restarts a topic that was created again with these partitions."""
        self.done = {each for each in self.done if each.topic != topic}
        if self.assigned is not None:
            kept = {each for each in self.assigned if each.topic != topic}
            self.assigned = kept | {TopicPartition(topic, index) for index in partitions}

    def at_end(self, partition: TopicPartition) -> None:
        """The partition has no more records at the moment."""
        if self.exit_at_end or partition in self.stops:
            self.done.add(partition)

    @property
    def bounded(self) -> bool:
        """Whether the run has an end."""
        return self.exit_at_end or bool(self.stops)

    @property
    def complete(self) -> bool:
        """Whether all assigned partitions are done."""
        return bool(self.assigned) and self.done >= (self.assigned or set())


class ConsumeLoop:
    """Yields batches until `ends` is complete or `limit` records were read."""

    def __init__(
        self,
        consumer: "Consumer",
        ends: Ends,
        limit: int | None,
        on_poll: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_poll` is called before each poll, several times a second."""
        self._on_poll = on_poll
        self._consumer = consumer
        self._ends = ends
        self._limit = limit
        self._last_event_at = time.monotonic()
        self._empty_since: float | None = None
        self._has_asked_broker = False

    def on_assign(self, consumer: "Consumer", partitions: "list[Assigned]") -> None:
        """The group assigned partitions to this member, possibly none."""
        self._note_event()
        self._ends.assign(_partitions_of(partitions))
        if not self._ends.assigned:
            self._empty_since = time.monotonic()

    def on_revoke(self, consumer: "Consumer", partitions: "list[Assigned]") -> None:
        """The group revoked partitions from this member."""
        self._note_event()
        self._ends.revoke(_partitions_of(partitions))

    def batches(self, size: int = BATCH) -> Iterator[list["Message"]]:
        """Batches of at least one record, in the order of arrival."""
        left = self._limit
        while not self._check_finished() and left != 0:
            self._on_poll()
            wanted = size if left is None else min(size, left)
            batch = self._accept_messages(self._consumer.consume(wanted, timeout=POLL_S))
            if batch:
                yield batch
            if left is not None:
                left -= len(batch)

    def _accept_messages(self, messages: list["Message"]) -> list["Message"]:
        batch = []
        for message in messages:
            self._note_event()
            error = message.error()
            if error is not None:
                self._handle_error(error, message)
                continue
            partition = TopicPartition(message.topic() or "", message.partition() or 0)
            if self._ends.accept(partition, message.offset() or 0, message.timestamp()[1]):
                batch.append(message)
        return batch

    def _handle_error(self, error: "KafkaError", message: "Message") -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._PARTITION_EOF:
            self._ends.at_end(TopicPartition(message.topic() or "", message.partition() or 0))
            return
        if error.retriable() or error.code() in {
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._RESOLVE,
            KafkaError._MAX_POLL_EXCEEDED,
        }:
            return  # the consumer reconnects when the broker is back
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and not self._ends.bounded:
            return  # the topic was deleted: `TopicWatch` reports it, and it may be created again
        raise CommandFailed(f"reading failed: {error.str()} ({error.name()})")

    def _note_event(self) -> None:
        self._last_event_at = time.monotonic()
        self._empty_since = None
        self._has_asked_broker = False

    def _check_finished(self) -> bool:
        if self._ends.complete:
            return True
        if not self._ends.bounded:
            return False
        now = time.monotonic()
        if self._empty_since is not None and not self._ends.assigned:
            return now - self._empty_since > EMPTY_GRACE_S
        silence_s = now - self._last_event_at
        if silence_s > GIVE_UP_AFTER_S:
            raise CommandFailed(f"no record and no end of a partition within {GIVE_UP_AFTER_S:g} s")
        if silence_s > ASK_AFTER_S and not self._has_asked_broker:
            self._has_asked_broker = True
            return self._is_at_ends()
        return False

    def _is_at_ends(self) -> bool:
        """Asks the broker whether the consumer has read every partition to its end."""
        from confluent_kafka import KafkaException

        assignment = self._consumer.assignment()
        if not assignment:
            return False
        try:
            for position in self._consumer.position(assignment):
                _, end = self._consumer.get_watermark_offsets(position, timeout=POLL_S * 10)
                if position.offset < end:
                    return False
        except KafkaException:
            return False
        return True


def _partitions_of(partitions: "list[Assigned]") -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]


def record_of(message: "Message") -> PrintableRecord:
    """A consumed message as a plain record."""
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return PrintableRecord(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=[(name, _bytes(value)) for name, value in pairs],
        leader_epoch=message.leader_epoch(),
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
