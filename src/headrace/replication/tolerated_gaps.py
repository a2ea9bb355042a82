"""Gaps in producers' sequence numbers that may still be filled. Pure.

A producer sends batches before earlier ones are acknowledged. So the batches after one that was
refused with a retriable error arrive first. Also, librdkafka waits for the answer of a leader that
does not respond, even if it knows the next leader; after `socket.timeout.ms`, later batches may
overtake the unanswered one.

If librdkafka gets the error for a gap, it begins a new producer epoch and sends its in-flight
batches of other partitions again as new ones, which may duplicate them. If it gets a retriable
error, it sends all batches again in order. A gap that lasts for a few seconds gets the real error.
"""

from typing import Final

NEVER: Final = float("-inf")
GRACE_S: Final = 5.0  # starts at the refusal, or when the gap is first seen
LONGEST_CLIENT_WAIT_S: Final = 300.0  # librdkafka's longest wait for a leader that does not respond
MAX_PRODUCERS: Final = 1000  # producers whose gaps are remembered; the oldest are dropped


class ToleratedGaps:
    """The gaps that one leader tolerates for a time. Times are from a monotonic clock."""

    __slots__ = ("_refused_until", "_seen", "starts_doubted_until")

    def __init__(self) -> None:
        self._refused_until = NEVER
        self._seen: dict[int, float] | None = None  # time of the first gap, by producer id
        # Until this time a producer's first batch at this leader need not be the first that it
        # sent.
        self.starts_doubted_until = NEVER

    def refused(self, now: float) -> None:
        """Called when a producer got a retriable error: its later batches may arrive first."""
        self._refused_until = now + GRACE_S
        self.starts_doubted_until = max(self.starts_doubted_until, now + GRACE_S)

    def began(self, now: float, *, is_first: bool) -> None:
        """Called when the partition has a new leader, perhaps its first.

        A producer that wrote to it too early got a retriable error; a producer that waits for the
        previous leader may wait for long.
        """
        if is_first:
            self.starts_doubted_until = now + GRACE_S
        else:
            self.refused(now)
            self.starts_doubted_until = now + LONGEST_CLIENT_WAIT_S

    def is_excused(self, producer_id: int, now: float, *, is_new_here: bool) -> bool:
        """Whether the missing batch may still arrive; `is_new_here` if this leader has appended
        nothing of the producer yet."""
        is_fresh = is_new_here and now < self._first_seen(producer_id, now) + GRACE_S
        return is_fresh or now < self._refused_until

    def _first_seen(self, producer_id: int, now: float) -> float:
        if self._seen is None:
            self._seen = {}
        if producer_id not in self._seen and len(self._seen) >= MAX_PRODUCERS:
            del self._seen[next(iter(self._seen))]
        return self._seen.setdefault(producer_id, now)
