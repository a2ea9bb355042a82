"""Finds logs on disks that have been full for so long that other replicas should take over. Pure.

A full disk is often temporary, and most failed appends need no action. A directory counts only if
it keeps rejecting appends; one without appends does not count. From then on each of its logs counts
at its first failed append.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

PATIENCE_S: Final = 3.0

Refusals = Mapping[str, int]
"""By log name: how many appends have failed for lack of space since the last success."""


class _FirstRefusal(NamedTuple):
    at: float
    refusals: int


class FullDiskDetector:
    """Called periodically with the failed appends in each directory."""

    def __init__(self) -> None:
        self._since: dict[str, _FirstRefusal] = {}

    def update(self, refusals: Mapping[str, Refusals], now: float) -> set[str]:
        """Stores the counts; returns the full logs in directories that keep rejecting appends."""
        known, self._since = self._since, {}
        full: set[str] = set()
        for directory, logs in refusals.items():
            if not logs:
                continue
            count = sum(logs.values())
            since = known.get(directory)
            if since is None or count < since.refusals:  # some appends have succeeded in between
                since = _FirstRefusal(now, count)
            elif now - since.at >= PATIENCE_S and count > since.refusals:
                full.update(logs)
            self._since[directory] = since
        return full
