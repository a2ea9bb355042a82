"""A log that can lose records: the old ones to retention, the new ones to another leader.

The order of file operations is the guarantee here, as in `LogFiles`: names that must be gone are
made durable before the offsets they held are written again, and a promise is lowered before what
it covered is dropped.
"""

from collections.abc import Callable
from dataclasses import replace

from headrace.storage.errors import DiskFull, LogCorrupt, OffsetOutOfRange
from headrace.storage.log.log_files import LogFiles
from headrace.storage.log.retention import to_delete
from headrace.storage.recovery.producer_recovery import rebuild_producers
from headrace.storage.segment.segment import Segment
from headrace.storage.state.damage import Damage, walk
from headrace.storage.state.producers import ProducerStates


class ShrinkableLog(LogFiles):
    """Deletes from the log's start, truncates at its end."""

    __slots__ = ()

    # --- at the start ---------------------------------------------------------------------------

    def delete_before(self, offset: int) -> None:
        """Moves the log's start up to `offset` (DeleteRecords); retention removes the segments."""
        self._ready()
        if not 0 <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(self.name, offset, self.log_start_offset, self.log_end_offset)
        if offset > self.log_start_offset:
            self._begin_at(offset)

    def delete_old_segments(
        self, now_ms: int, high_watermark: int | None = None, *, is_follower: bool = False
    ) -> int:
        """Retires the segments that retention no longer keeps; returns how many.

        Only segments wholly below the high watermark go, and at a follower only those below the
        log's start. Their files are renamed here and removed by the manager's sweep.
        """
        self._ready()
        if self._swap is not None:
            return 0  # for a moment, while segments are being replaced
        limit = self.log_end_offset if high_watermark is None else high_watermark
        doomed = to_delete(
            self._segments,
            self.config,
            now_ms,
            log_start=self.log_start_offset,
            log_end=self.log_end_offset,
            high_watermark=limit,
            is_follower=is_follower,
        )
        if not doomed:
            return 0
        try:
            if doomed[-1] is self._segments.active:
                doomed = self._all_that_can_go(doomed)
            delay_ms = self.config.file_delete_delay_ms
            for path in self._segments.retire(doomed):
                self.directory.trash.add_file(path, delay_ms)
        except OSError as error:
            raise self.directory.fault(error, f"deleting segments of {self.name}") from error
        self._begin_at(max(self.log_start_offset, self._segments.items[0].base_offset))
        return len(doomed)

    def _all_that_can_go(self, doomed: list[Segment]) -> list[Segment]:
        """The active segment as well, if there is room for an empty one in its place.

        That keeps the log's end: offsets are never given twice.
        """
        try:
            self.roll(is_doomed=True)
        except DiskFull:
            if len(doomed) == 1:
                raise
            return doomed[:-1]  # which makes room for another try
        self._durability.sync_names(self._segments)
        return doomed

    def _begin_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self._epochs.truncate_from_start(offset)
        if self._damages:
            self._keep_damages(lambda each: each.next_offset > offset)

    # --- at the end -----------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Drops every record at or past `offset`, and the batch that holds it."""
        self._ready()
        if offset >= self.log_end_offset:
            return
        if offset <= self.log_start_offset:
            self.truncate_fully_and_start_at(max(offset, 0))
            return
        self._finish_swap()
        self.truncations += 1
        with self._durability.lock:
            try:
                end = self._truncate(offset)
            except OSError as error:
                raise self.directory.fail(f"truncating {self.name}: {error}") from error
            self.log_end_offset = end

    def _truncate(self, offset: int) -> int:
        """The promise is lowered, durably, before anything it covered is dropped."""
        segments = self._segments
        slot = segments.slot_of(offset)
        segment = segments.items[slot]
        position, end = self._place_to_cut(segment, offset)
        if self._durability.recovery_point > end:  # else nothing that goes was promised
            self._durability.lower(end)
            self.directory.save_recovery_points()
        segments.remove(segments.items[slot + 1 :])
        if position < segment.size:
            segment.truncate(position, end)
            segments.fs.fsync(segment.file.acquire())
        segments.remove_snapshots(above=end)
        self._epochs.truncate_from_end(end)
        segments.fs.fsync_dir(self.path)
        self._producers = rebuild_producers(segments, self.log_start_offset, end)
        self._keep_damages(lambda each: each.first_offset < end)
        return end

    def _place_to_cut(self, segment: Segment, offset: int) -> tuple[int, int]:
        """The position and the offset at which the segment is to end."""
        if self._damages:
            try:
                walked = walk(segment, offset, segment.size, offset, self._epochs.span)
            except FileNotFoundError:  # what is made anew in its place begins with nothing
                return 0, segment.base_offset
            return walked.position, min(offset, max(walked.next_offset, segment.base_offset))
        found = segment.find(offset)
        return (segment.size, offset) if found is None else (found[0], min(found[1], offset))

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drops everything and goes on at `offset`, as a follower does that fell too far behind."""
        self._ready()
        self._finish_swap()
        self.truncations += 1
        segments = self._segments
        with self._durability.lock:
            try:
                self._durability.lower(offset)
                self.directory.save_recovery_points()
                segments.remove(list(segments.items))
                segments.remove_snapshots(above=-1)
                self._producers = ProducerStates()
                self._epochs.clear()
                self._keep_damages(lambda _: False)
                self.log_start_offset = self.log_end_offset = offset
                if not self._knows_topic:
                    self._write_topic_id()
                segments.add(offset)
                segments.fs.fsync_dir(self.path)
            except OSError as error:
                raise self.directory.fail(f"truncating {self.name}: {error}") from error
            self._durability.name_added()

    # --- damage ---------------------------------------------------------------------------------

    def give_up_damaged(self) -> None:
        """Goes on as far as it holds. For who knows that others have the rest."""
        if not self.is_damaged:
            return
        self._failure = None
        self.directory.damaged.discard(self.name)
        if self._damages:
            try:
                self.truncate_to(self._damages.first.first_offset)
            except LogCorrupt:  # there is more of it, also where producers' state is read from
                self.truncate_fully_and_start_at(self.log_start_offset)
        else:  # at its next use
            self._checkpointed = replace(self._checkpointed, expendable=True)

    def _keep_damages(self, is_kept: Callable[[Damage], bool]) -> None:
        """Forgets damage in what is not part of the log any more."""
        self._damages.keep(is_kept)
        if not self.is_damaged:
            self.directory.damaged.discard(self.name)
