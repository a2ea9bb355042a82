"""A log whose records are found by their time.

Guarantees: an answer is the right one. What it depends on, the batches that were passed over and
the one that was found, is checked as reads check it; where damage leaves the answer open, that is
said instead.
"""

from headrace.storage.errors import LogCorrupt
from headrace.storage.log import time_lookup
from headrace.storage.log.compactable_log import CompactableLog
from headrace.storage.log.time_lookup import TimestampedOffset
from headrace.storage.segment.batch_check import BadBatch
from headrace.storage.segment.segment import Segment


class LogByTime(CompactableLog):
    """Looks records up by timestamp."""

    __slots__ = ()

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record that is at least as new as `timestamp`.

        Raises `RecordsDamaged` where damage, or a segment that is gone, leaves that open.
        """
        self._ready()
        try:
            return self._first_at(timestamp)
        except OSError as error:
            raise self.directory.fault(error, f"reading {self.name}") from error

    def max_timestamp_offset(self) -> TimestampedOffset | None:
        """The first record that has the largest timestamp of all."""
        self._ready()
        try:
            newest = max((self._newest_in(each) for each in self._from_start()), default=-1)
            self._check_holes(self.log_start_offset, self.log_end_offset)
            return self._first_at(newest) if newest >= 0 else None
        except OSError as error:
            raise self.directory.fault(error, f"reading {self.name}") from error

    def _from_start(self) -> list[Segment]:
        segments = self._segments
        first = segments.slot_of(self.log_start_offset)
        return [each for each in segments.items[first:] if each.size]

    def _first_at(self, timestamp: int) -> TimestampedOffset | None:
        found, log_start = None, self.log_start_offset
        for segment in self._from_start():
            if self._newest_in(segment) < timestamp:
                continue
            start = segment.base_offset
            try:
                start = max(log_start, time_lookup.start_in(segment, timestamp))
                found, end = time_lookup.first_in(segment, start, timestamp, log_start)
            except (LogCorrupt, FileNotFoundError) as error:
                raise self._damaged(self._locate(segment, start, error)) from error
            self._vouch(segment, start, end)
            if found is not None:
                break
        self._check_holes(log_start, self.log_end_offset if found is None else found.offset)
        return found

    def _newest_in(self, segment: Segment) -> int:
        """A segment's largest timestamp; where only its batches tell it, all of them must hold."""
        try:
            newest = segment.max_timestamp
        except FileNotFoundError as error:
            raise self._damaged(self._locate(segment, segment.base_offset, error)) from error
        if segment.is_time_in_doubt:
            self._vouch(segment, segment.base_offset, segment.size)
            segment.is_time_in_doubt = False
        return newest

    def _vouch(self, segment: Segment, offset: int, to: int) -> None:
        """Raises unless the batches hold, from some way before `offset` up to position `to`."""
        if segment is self._segments.active:
            to = min(to, segment.own_from)  # what this life appended last was checked then
        try:
            self._check_before(segment, offset, to)
        except (BadBatch, FileNotFoundError) as error:
            raise self._damaged(self._locate(segment, offset, error)) from error
