"""The latest metadata changes, for brokers that poll for updates. Pure.

A version identifies one state of the cluster, independently of the controller that wrote it. Every
broker keeps this log of the changes it received, so that it can serve polls if it is elected.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.cluster.metadata_record_format import encode
from headrace.cluster.metadata_records import MetadataRecord

MAX_RECORDS: Final = 50_000
"""A broker that is further behind gets a snapshot, which is smaller than that many changes."""


@dataclass(slots=True)
class MetadataChange:
    """From one version to the next; `encoded` is the wire form, encoded once for all brokers."""

    before: int
    after: int
    records: Sequence[MetadataRecord]
    _encoded: list[bytes] | None = field(default=None, repr=False)

    @property
    def encoded(self) -> list[bytes]:
        if self._encoded is None:
            self._encoded = [encode(record) for record in self.records]
        return self._encoded


class MetadataLog:
    """Changes without a gap up to the newest version."""

    def __init__(self, version: int = -1, *, max_records: int = MAX_RECORDS) -> None:
        self._version = version
        self._max_records = max_records
        self._changes: deque[MetadataChange] = deque()
        self._records = 0

    @property
    def version(self) -> int:
        return self._version

    def add(self, change: MetadataChange) -> None:
        """Adds a change. One that does not start at the newest version drops all earlier ones."""
        if change.before != self._version:
            self._changes.clear()
            self._records = 0
        self._changes.append(change)
        self._records += len(change.records)
        self._version = change.after
        while self._records > self._max_records:
            self._records -= len(self._changes.popleft().records)

    def since(self, version: int) -> list[MetadataChange] | None:
        """The changes after that version; None if the log does not reach back to it."""
        if version == self._version:
            return []
        found: list[MetadataChange] = []
        for change in reversed(self._changes):
            found.append(change)
            if change.before == version:
                return found[::-1]
            if change.before < version:
                break
        return None
