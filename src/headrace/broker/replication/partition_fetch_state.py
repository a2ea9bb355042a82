"""How the copying of one partition stands: what was asked, and after what trouble. Pure.

Where two logs part, the follower's is cut back, and every cut must go further back than the one
before: what is copied after it is the leader's. One that does not has led nowhere. The leader would
ask for the same again, and so on for ever, because its epochs contradict its records or because
this log cannot be cut: such a partition waits, longer each time.
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
        "cut_backoff_s",
        "cut_end",
        "follower",
        "gone",
        "in_session",
        "key",
        "named_in",
    )

    def __init__(self, key: Key, follower: Follower) -> None:
        self.key = key
        self.follower = follower
        self.named_in = NEVER  # the number of the fetch that last named it
        self.in_session = False
        self.gone = False  # it is not copied any more
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Its leader is another, or leads anew: what went wrong before is forgotten."""
        self.backoff_s = 0.0
        self.cut_backoff_s = 0.0
        self.cut_end: int | None = None  # where its log ended when it was last cut back

    def has_moved_on(self, before: int, end: int) -> bool:
        """Whether a log that ended at `before` and now at `end` is nearer to its leader's."""
        if end == before or (end < before and self.cut_end is not None and end >= self.cut_end):
            return False
        if end < before:
            self.cut_end = end
        return True

    def hold(self, longest_s: float, *, by_cuts: bool = False) -> bool:
        """Takes nothing until it is named again, which is to be after `backoff_s`, a longer pause.

        Pauses `by_cuts` that lead nowhere grow whatever is copied between two of them. Returns
        whether the pause has just become the longest.
        """
        self.named_in = NEVER
        before_s = self.cut_backoff_s if by_cuts else self.backoff_s
        self.backoff_s = longer_backoff_s(before_s, longest_s)
        if by_cuts:
            self.cut_backoff_s = self.backoff_s
        return before_s < self.backoff_s == longest_s
