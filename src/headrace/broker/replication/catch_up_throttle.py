"""Limits the rate at which a lagging follower gets the records that it lacks. Pure.

No request waits for a replica that is out of sync, but other requests wait for the sending and the
receiving broker. The missing records are therefore sent in slices, with pauses in which other
requests are served. Records appended meanwhile are sent in addition to the rate; otherwise a
follower might never catch up.
"""

from typing import Final

GROWTH: Final = 2
"""For each byte appended where the follower lags: that byte and one more."""


class CatchUpThrottle:
    """The throttle of one follower at one leader; costs are in bytes, see `replication_slices`."""

    __slots__ = ("_free_at", "_rate")

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._free_at = float("-inf")

    def wait_s(self, now: float) -> float:
        """The time until the next records may be sent; 0 if they may be sent now."""
        return max(0.0, self._free_at - now)

    def spend(self, cost: int, now: float) -> None:
        self._free_at = max(now, self._free_at) + cost / self._rate

    def appended(self, cost: int) -> None:
        self._free_at -= GROWTH * cost / self._rate
