"""What clients write to and read from each topic, counted by this broker since its start.

A topic has one `TopicTraffic`, which its replicas and handlers change in place. The counts of
deleted topics stay in the broker's totals, as in Kafka.
"""

from operator import attrgetter
from typing import Final


class TopicTraffic:
    """The counters of one topic; plain attributes, because a hot path changes them."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_isr_updates",
        "failed_produces",
        "fetches",
        "isr_expands",
        "isr_shrinks",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.failed_fetches = 0
        self.failed_isr_updates = 0
        self.failed_produces = 0
        self.fetches = 0
        self.isr_expands = 0
        self.isr_shrinks = 0
        self.messages_in = 0
        self.produces = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def add(self, other: "TopicTraffic") -> None:
        """Adds the counts of another topic."""
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


COUNTERS: Final = TopicTraffic.__slots__


class BrokerTraffic:
    """The traffic of all topics."""

    __slots__ = ("_deleted", "_topics")

    def __init__(self) -> None:
        self._topics: dict[bytes, tuple[str, TopicTraffic]] = {}  # by topic id
        self._deleted = TopicTraffic()

    def topic(self, name: str, topic_id: bytes) -> TopicTraffic:
        """The counters of a topic, created at the first call."""
        known = self._topics.get(topic_id)
        if known is None:
            known = self._topics[topic_id] = (name, TopicTraffic())
        return known[1]

    def remove(self, topic_id: bytes) -> None:
        """Ends the counters of a deleted topic."""
        known = self._topics.pop(topic_id, None)
        if known is not None:
            self._deleted.add(known[1])

    def total(self, counter: str) -> int:
        """One of `COUNTERS` for all topics, deleted ones included."""
        read = attrgetter(counter)
        count: int = read(self._deleted)
        for _, traffic in self._topics.values():
            count += read(traffic)
        return count
