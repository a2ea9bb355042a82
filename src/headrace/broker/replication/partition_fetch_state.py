"""The fetch state of one partition: its last position and its errors. Pure.

Where two logs diverge, the follower's log is truncated. Every truncation must go further back than
the one before, because the records copied after it are the leader's. Otherwise the leader would
request truncations without end: the leader's epochs contradict its records, or this log cannot be
truncated. Such a partition waits, longer each time.
"""

from typing import Final

from headrace.broker.replication.fetch_backoff import longer_backoff_s
from headrace.replication.follower import Follower

NEVER: Final = -1

Key = tuple[bytes, int]  # topic id and partition


class PartitionFetchState:
    """One partition that is copied."""

    __slots__ = (
        "backoff_s",
        "follower",
        "in_session",
        "key",
        "named_in",
        "removed",
        "truncated_end",
        "truncation_backoff_s",
    )

    def __init__(self, key: Key, follower: Follower) -> None:
        self.key = key
        self.follower = follower
        self.named_in = NEVER  # the number of the fetch that last named it
        self.in_session = False
        self.removed = False  # no longer copied
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Starts a new leader epoch: earlier errors no longer count."""
        self.backoff_s = 0.0
        self.truncation_backoff_s = 0.0
        self.truncated_end: int | None = None  # the log end offset at the last truncation

    def record_progress(self, before: int, end: int) -> bool:
        """Whether a log whose end moved from `before` to `end` is closer to its leader's."""
        if end == before or (
            end < before and self.truncated_end is not None and end >= self.truncated_end
        ):
            return False
        if end < before:
            self.truncated_end = end
        return True

    def back_off(self, longest_s: float, *, by_truncations: bool = False) -> bool:
        """Ignores records until the partition is named again, after `backoff_s`, a longer pause.

        Pauses `by_truncations` (those without progress) grow even if records are copied in between.
        Returns whether the pause has just reached its maximum.
        """
        self.named_in = NEVER
        before_s = self.truncation_backoff_s if by_truncations else self.backoff_s
        self.backoff_s = longer_backoff_s(before_s, longest_s)
        if by_truncations:
            self.truncation_backoff_s = self.backoff_s
        return before_s < self.backoff_s == longest_s
