"""The measurements of a quota, one for each user and client id that uses it. Pure.

Clients choose their client ids, so the number of measurements is limited: the least recently used
one is dropped first. A measurement that has not been used for a while has the state of a new one,
and is dropped, too.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MAX_SENSORS: Final = 10_000
"""More than the clients of a large cluster; their meters take a few megabytes."""

DROPS_PER_SENSOR: Final = 2
"""Idle measurements that are dropped for each new one: more than are added."""


class SensorTable(Generic[T]):
    """Measurements by their scope, the least recently used first."""

    def __init__(
        self,
        create: Callable[[], T],
        is_idle: Callable[[T, float], bool],
        max_sensors: int = MAX_SENSORS,
    ) -> None:
        self._create = create
        self._is_idle = is_idle
        self._max = max_sensors
        self._by_scope: dict[Hashable, T] = {}

    def __len__(self) -> int:
        return len(self._by_scope)

    def get(self, scope: Hashable, now_s: float) -> T:
        """The measurement of this scope, a new one if there is none."""
        found = self._by_scope.pop(scope, None)
        if found is None:
            self._make_room(now_s)
            found = self._create()
        self._by_scope[scope] = found
        return found

    def _make_room(self, now_s: float) -> None:
        for _ in range(DROPS_PER_SENSOR):
            oldest = next(iter(self._by_scope.items()), None)
            if oldest is None or not self._is_idle(oldest[1], now_s):
                break
            del self._by_scope[oldest[0]]
        while len(self._by_scope) >= self._max:
            del self._by_scope[next(iter(self._by_scope))]
