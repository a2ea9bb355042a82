"""Which logs have found no room for so long that others should take what they are sent. Pure.

A full disk passes, and most refusals are over before anybody need act: only a log that goes on
refusing counts, and one that nobody writes to does not.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

PATIENCE_S: Final = 3.0


class _Since(NamedTuple):
    at: float
    refusals: int


class RoomWatch:
    """To be asked again and again, with each log's refusals since it last found room."""

    def __init__(self) -> None:
        self._since: dict[str, _Since] = {}

    def look(self, refusals: Mapping[str, int], now: float) -> set[str]:
        """The logs that were full when they were first seen, and have refused more since."""
        known, self._since = self._since, {}
        full = set()
        for name, count in refusals.items():
            since = known.get(name)
            if since is None or count < since.refusals:  # it has found room in between
                since = _Since(now, count)
            elif now - since.at >= PATIENCE_S and count > since.refusals:
                full.add(name)
            self._since[name] = since
        return full
