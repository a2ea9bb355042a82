"""Gaps in producers' sequence numbers that are none yet: what is missing is on its way. Pure.

A producer sends batches before it knows what became of those before. So what it sent behind a batch
that was refused for the moment comes first. And librdkafka, whose leader does not answer, waits for
that answer also when it knows the next leader; in the moment in which it gives up
(`socket.timeout.ms`), what lies behind the unanswered batch may overtake it.

Told of a gap, librdkafka takes a new producer epoch, and sends again, as new, what it has under way
in other partitions, where it may be by now. Told to try again, it sends all in order. A gap that
stays is told a few seconds later.
"""

from typing import Final

NEVER: Final = float("-inf")
GRACE_S: Final = 5.0  # from the refusal, or from when the gap was first seen
LONGEST_PATIENCE_S: Final = 300.0  # of librdkafka, with a leader that does not answer
MAX_PRODUCERS: Final = 1000  # whose gaps are remembered; of more, those seen first are forgotten


class SequenceGaps:
    """Which gaps one leader excuses. Times are those of a steady clock."""

    __slots__ = ("_refused_until", "_seen", "starts_doubted_until")

    def __init__(self) -> None:
        self._refused_until = NEVER
        self._seen: dict[int, float] | None = None  # when, by producer id
        # Until then a producer's first batch here may not be the first it sent.
        self.starts_doubted_until = NEVER

    def refused(self, now: float) -> None:
        """A producer was told to send again: what it sent behind that may come first."""
        self._refused_until = now + GRACE_S
        self.starts_doubted_until = max(self.starts_doubted_until, now + GRACE_S)

    def began(self, now: float, *, is_first: bool) -> None:
        """The partition has a new leader, perhaps its first. Who knew that before it did was sent
        away; who waits for the leader before knows it already, and may wait for long."""
        if is_first:
            self.starts_doubted_until = now + GRACE_S
        else:
            self.refused(now)
            self.starts_doubted_until = now + LONGEST_PATIENCE_S

    def excuses(self, producer_id: int, now: float, *, is_new_here: bool) -> bool:
        """Whether what is missing may still come; `is_new_here` if this leader has taken nothing
        of the producer yet."""
        is_fresh = is_new_here and now < self._first_seen(producer_id, now) + GRACE_S
        return is_fresh or now < self._refused_until

    def _first_seen(self, producer_id: int, now: float) -> float:
        if self._seen is None:
            self._seen = {}
        if producer_id not in self._seen and len(self._seen) >= MAX_PRODUCERS:
            del self._seen[next(iter(self._seen))]
        return self._seen.setdefault(producer_id, now)
