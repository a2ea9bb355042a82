"""Limits login attempts, by address and by user name. Pure.

After `FREE_FAILURES` failures, each further one doubles the time until the next attempt. The caller
counts an attempt as failed before it makes it, and takes it back if it succeeds: parallel attempts
are limited as well.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

FREE_FAILURES: Final = 5
FIRST_WAIT_S: Final = 2.0
LONGEST_WAIT_S: Final = 300.0
MAX_DOUBLINGS: Final = 10  # beyond LONGEST_WAIT_S
FORGOTTEN_AFTER_S: Final = 900.0
MAX_TRACKED: Final = 10_000
"""Addresses and names; the longest unused are dropped."""


@dataclass(slots=True)
class _Failures:
    count: int
    last_s: float


class LoginLimiter:
    """Counts failures for each key (an address or a user name)."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def wait_s(self, keys: tuple[str, ...], now_s: float) -> float:
        """The time until the next attempt is allowed; 0 if it is allowed now."""
        return max((self._wait_of(key, now_s) for key in keys), default=0.0)

    def failed(self, keys: tuple[str, ...], now_s: float) -> None:
        for key in keys:
            found = self._failures.pop(key, None)
            if found is None or now_s - found.last_s > FORGOTTEN_AFTER_S:
                found = _Failures(0, now_s)
            found.count += 1
            found.last_s = now_s
            self._failures[key] = found
        while len(self._failures) > MAX_TRACKED:
            self._failures.popitem(last=False)

    def succeeded(self, keys: tuple[str, ...]) -> None:
        """Takes back the attempt that was counted before it was made."""
        for key in keys:
            found = self._failures.get(key)
            if found is not None:
                found.count -= 1
                if found.count <= 0:
                    del self._failures[key]

    def _wait_of(self, key: str, now_s: float) -> float:
        found = self._failures.get(key)
        if found is None or found.count < FREE_FAILURES:
            return 0.0
        doublings = min(found.count - FREE_FAILURES, MAX_DOUBLINGS)
        wait_s = min(FIRST_WAIT_S * (1 << doublings), LONGEST_WAIT_S)
        return max(0.0, found.last_s + wait_s - now_s)
