"""How fast a follower that lags behind is sent what it lacks. Pure.

Nobody waits for a replica that is not in sync, but others wait for the broker that sends and for
the one that writes. So what it lacks goes turn by turn, with room between the turns for those who
wait. What is appended meanwhile is sent on top of the rate, or a follower might never catch up.
"""

from typing import Final

GROWTH: Final = 2
"""For each byte that is appended where the follower lags: it, and one more."""


class CatchUpThrottle:
    """Of one follower at one leader; costs are in bytes, see `replica_turns`."""

    __slots__ = ("_free_at", "_rate")

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._free_at = float("-inf")

    def wait_s(self, now: float) -> float:
        """How long nothing more is sent; 0 if something may be now."""
        return max(0.0, self._free_at - now)

    def spend(self, cost: int, now: float) -> None:
        self._free_at = max(now, self._free_at) + cost / self._rate

    def appended(self, cost: int) -> None:
        self._free_at -= GROWTH * cost / self._rate
