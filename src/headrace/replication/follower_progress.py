"""How far one follower is, as its leader sees it. Pure."""

from typing import Final

UNKNOWN: Final = -1
NEVER: Final = float("-inf")


class FollowerProgress:
    """What a follower's fetches tell: a fetch from an offset says that all below it is there."""

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
        """The follower asks for `offset` while the leader's log ends at `leader_end`."""
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif offset >= self._end_when_asked:
            # It has all that was there when it last asked: a busy log is not a lagging follower.
            self.caught_up_at = max(self.caught_up_at, self._asked_at)
        self.log_end = offset
        self.log_start = log_start
        self.broker_epoch = broker_epoch
        self._asked_at = now
        self._end_when_asked = leader_end

    def lags(self, leader_end: int, now: float, max_lag_s: float) -> bool:
        """Whether it has been behind for longer than is allowed."""
        return self.log_end != leader_end and now - self.caught_up_at > max_lag_s
