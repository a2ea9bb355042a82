"""The progress of one follower, as its leader knows it. Pure."""

from typing import Final

UNKNOWN: Final = -1
NEVER: Final = float("-inf")


class FollowerProgress:
    """The state of a follower, from its fetches: it has all records below its fetch offset."""

    __slots__ = (
        "_asked_at",
        "_end_when_asked",
        "broker_epoch",
        "caught_up_at",
        "log_end",
        "log_start",
    )

    def __init__(self, caught_up_at: float = NEVER) -> None:
        self.log_end = UNKNOWN
        self.log_start = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.caught_up_at = caught_up_at
        self._asked_at = NEVER
        self._end_when_asked = 0

    def fetched(
        self, offset: int, log_start: int, broker_epoch: int, leader_end: int, now: float
    ) -> None:
        """The follower fetches from `offset` while the leader's log ends at `leader_end`."""
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif offset >= self._end_when_asked:
            # It has all records up to the log end at its last fetch: in a busy log this is not a
            # lag.
            self.caught_up_at = max(self.caught_up_at, self._asked_at)
        self.log_end = offset
        self.log_start = log_start
        self.broker_epoch = broker_epoch
        self._asked_at = now
        self._end_when_asked = leader_end

    def lags(self, leader_end: int, now: float, max_lag_s: float) -> bool:
        """Whether the follower has been behind for longer than `max_lag_s`."""
        return self.log_end != leader_end and now - self.caught_up_at > max_lag_s
