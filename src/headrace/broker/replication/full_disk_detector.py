"""Which logs are on disks that have been full for so long that others should take over. Pure.

A full disk passes, and most refusals are over before anybody need act: only a directory that goes
on refusing counts, and one that nobody writes to does not. Once it counts, no log in it is given
time.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

PATIENCE_S: Final = 3.0

Refusals = Mapping[str, int]
"""By the names of logs: how many appends found no room, since the last that did."""


class _Since(NamedTuple):
    at: float
    refusals: int


class FullDiskDetector:
    """To be asked again and again, with the refusals in each directory."""

    def __init__(self) -> None:
        self._since: dict[str, _Since] = {}

    def look(self, refusals: Mapping[str, Refusals], now: float) -> set[str]:
        """The logs that find no room in directories that have refused for a while, and still do."""
        known, self._since = self._since, {}
        full: set[str] = set()
        for directory, logs in refusals.items():
            if not logs:
                continue
            count = sum(logs.values())
            since = known.get(directory)
            if since is None or count < since.refusals:  # some have found room in between
                since = _Since(now, count)
            elif now - since.at >= PATIENCE_S and count > since.refusals:
                full.update(logs)
            self._since[directory] = since
        return full
