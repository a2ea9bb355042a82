"""A log's files and state: opening, rolling, flushing, closing.

The order of file operations is the guarantee here: a crash after any of them leaves a directory
that recovery opens with everything that was promised. Names that must be there are made durable
before the log's end depends on them.
"""

import logging
import zlib

from headrace.storage.cleaning.swap import Swap
from headrace.storage.errors import (
    DiskFull,
    LogClosed,
    LogCorrupt,
    RecordsDamaged,
    StorageError,
)
from headrace.storage.files.filesystem import TEMPORARY_SUFFIX, remove_if_there, write_file
from headrace.storage.files.log_dir import LogDir
from headrace.storage.log.durability import Durability
from headrace.storage.recovery.log_loader import Checkpointed, load_log
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.segments import Segments
from headrace.storage.state import producer_snapshot, segment_manifest
from headrace.storage.state.append_validation import AppendRules
from headrace.storage.state.checkpoints import LEADER_EPOCHS, encode_epochs
from headrace.storage.state.damage import Damage, locate, walk
from headrace.storage.state.damaged_ranges import DamagedRanges
from headrace.storage.state.leader_epochs import LeaderEpochs
from headrace.storage.state.log_config import COMPACT, MAX_LONG, LogConfig
from headrace.storage.state.partition_metadata import write_topic_id
from headrace.storage.state.producers import ProducerStates
from headrace.storage.state.segment_manifest import LogManifest, SegmentState, crc_of_epochs

log = logging.getLogger(__name__)


class LogFiles:
    """What a log is made of; `Log` appends to it and reads from it."""

    __slots__ = (
        "_awaited",
        "_checkpointed",
        "_damages",
        "_durability",
        "_epochs",
        "_failure",
        "_files",
        "_knows_topic",
        "_loaded",
        "_producers",
        "_roll_after_ms",
        "_rules",
        "_segments",
        "_swap",
        "_unflushed_since_ms",
        "config",
        "directory",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "path",
        "refusals",
        "topic",
        "topic_id",
        "truncations",
    )

    def __init__(
        self,
        directory: LogDir,
        topic: str,
        partition: int,
        *,
        topic_id: bytes,
        config: LogConfig,
        checkpointed: Checkpointed,
        new: bool = False,
        directory_name: str | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.directory = directory
        self.path = f"{directory.path}/{directory_name or f'{topic}-{partition}'}"
        self.truncations = 0  # how often records were taken back
        self._files = directory.files
        self._checkpointed = checkpointed
        self._failure: StorageError | None = None
        self._damages = DamagedRanges()
        self._segments = Segments(directory.files, self.path)
        self._producers = ProducerStates()
        self._epochs = LeaderEpochs()
        self._swap: Swap | None = None
        self._unflushed_since_ms = 0
        self.refusals = 0  # appends that found no room, since the last that did
        # The batches that were refused first, by producer: (epoch, first sequence).
        self._awaited: dict[int, tuple[int, int]] = {}
        self.log_start_offset = checkpointed.log_start_offset
        self.log_end_offset = max(checkpointed.log_start_offset, checkpointed.recovery_point)
        self._durability = Durability(
            directory, self.log_end_offset, new_directory=new or not checkpointed.clean
        )
        self.reconfigure(config)
        self._knows_topic = not new  # whether partition.metadata is written
        self._loaded = new

    def __repr__(self) -> str:
        return f"<Log {self.name} [{self.log_start_offset}, {self.log_end_offset})>"

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def recovery_point(self) -> int:
        """Everything below it is synced."""
        return self._durability.recovery_point

    @property
    def is_loaded(self) -> bool:
        return self._loaded

    @property
    def failure(self) -> StorageError | None:
        """Why the log cannot be used."""
        return self._failure or self.directory.failure

    def reconfigure(self, config: LogConfig) -> None:
        """Takes effect with the next append."""
        self.config = config
        self._rules = AppendRules(config)
        # Spreads the rolls of many partitions over time, for each partition always the same.
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        if jitter_ms > 0:
            jitter_ms = zlib.crc32(self.name.encode()) % jitter_ms
        roll_after_ms = config.segment_ms
        if COMPACT in config.cleanup_policy:
            # The active segment is not compacted: it must not keep records for longer than that.
            roll_after_ms = min(roll_after_ms, config.max_compaction_lag_ms)
        self._roll_after_ms = roll_after_ms - jitter_ms

    def adopt(self, topic_id: bytes) -> None:
        """Takes the topic's id if the directory names none, as before the first record."""
        self.topic_id = topic_id
        self._knows_topic = False
        if self._segments.items or self.log_end_offset:
            self._write_topic_id()

    def _write_topic_id(self) -> None:
        write_topic_id(self._files.fs, self.path, self.topic_id)
        self._knows_topic = True

    # --- opening --------------------------------------------------------------------------------

    def load(self) -> None:
        """Opens the files, recovering if the last stop was not clean; done once, on first use."""
        if self._loaded:
            return
        self._check_usable()
        try:
            loaded = load_log(self._files, self.path, self.config, self._checkpointed)
            if loaded.segments.items and not self._knows_topic:
                self._write_topic_id()
        except LogCorrupt as error:
            self._failure = error
            self.directory.damaged.add(self.name)
            log.error("a log is offline", extra={"log": self.name, "reason": str(error)})
            raise
        except OSError as error:
            raise self.directory.fault(error, f"opening {self.name}") from error
        self._segments = loaded.segments
        self._producers = loaded.producers
        self._epochs = loaded.epochs
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self._durability.lower(loaded.log_end_offset)
        self._damages.holes = loaded.holes
        for hole in loaded.holes:
            self._damaged(hole)
        if not self._checkpointed.clean:
            self._durability.name_added()
        self._loaded = True
        if self._checkpointed.expendable:
            # What was cut is not promised any more: a crash from now on is one like any other.
            self.directory.save_recovery_points()

    # --- damage ---------------------------------------------------------------------------------

    @property
    def is_damaged(self) -> bool:
        """Whether bytes that were safe on disk do not hold any more.

        A log that was found so when it was opened is offline; one in use goes on with what holds.
        """
        return isinstance(self._failure, LogCorrupt) or bool(self._damages)

    def take_damaged_offline(self) -> None:
        """Serves and takes nothing more, because another replica is to do that."""
        if self._damages and self._failure is None:
            reason = self._damages.first.error()
            self._failure = LogCorrupt(f"{self.name} is offline: {reason}")

    def serve_what_holds(self) -> bool:
        """Takes back that it was taken offline, because nobody else is left; whether it was.

        A log that did not open stays as it is: nothing is known of what holds there.
        """
        if not (self._loaded and isinstance(self._failure, LogCorrupt)):
            return False
        self._failure = None
        return True

    def _damaged(self, damage: Damage) -> RecordsDamaged:
        """Remembers damage, says so once, and returns what to answer."""
        error = damage.error()
        if self._damages.add(damage):
            log.error("a log is damaged", extra={"log": self.name, "reason": str(error)})
        self.directory.damaged.add(self.name)
        return error

    def _limit_of(self, segment: Segment) -> int:
        """The first offset that cannot be in that segment."""
        following = self._segments.following(segment)
        return self.log_end_offset if following is None else following.base_offset

    def _check_before(self, segment: Segment, offset: int, to: int) -> int:
        """Where the batch at position `to` may begin, if nothing before it hides `offset`.

        For reads that do not find a batch that begins at `offset`: that may be so, where records
        were compacted away or a reader begins inside a batch, or a sign of damage.
        """
        walked = walk(segment, offset, to, self._limit_of(segment), self._epochs.span)
        if walked.bad is not None:
            raise walked.bad
        return walked.next_offset

    def _check_holes(self, offset: int, found: int) -> None:
        """Raises if a segment that is gone lies at `offset`, or between it and `found`."""
        hole = self._damages.hole_between(offset, found)
        if hole is not None:
            raise self._damaged(hole)

    def _locate(self, segment: Segment, offset: int, error: Exception) -> Damage:
        """Where a segment that did not give what is at `offset` stops to hold."""
        return locate(segment, offset, self._limit_of(segment), self._epochs.span, error)

    def _check_usable(self) -> None:
        failure = self._failure or self.directory.failure
        if failure is not None:
            raise failure

    def _ready(self) -> None:
        if self._failure or self.directory.failure or not self._loaded:
            self._check_usable()
            self.load()

    # --- rolling --------------------------------------------------------------------------------

    def roll(self, *, is_doomed: bool = False) -> Segment:
        """Closes the active segment and begins a new one at the log's end.

        The order matters: a crash after any step leaves a log that recovery opens the same way.
        One that `is_doomed` is to be deleted: a disk that is full must not keep it for want of
        room for its indexes.
        """
        self._ready()
        segments, end = self._segments, self.log_end_offset
        closed = segments.active
        strict = self.config.flush_messages != MAX_LONG
        try:
            if closed is not None:
                if closed.base_offset == end:
                    return closed
                if is_doomed:
                    self._snapshot_if_there_is_room(sync=strict)
                else:
                    closed.write_indexes()
                    self._snapshot(sync=strict)
            elif not self._knows_topic:
                # Before the first record and not earlier: ten thousand new partitions are made
                # in half the time, and an empty directory belongs to any topic.
                self._write_topic_id()
            return self._durability.roll(segments, closed, end, strict=strict)
        except OSError as error:
            raise self.directory.fault(error, f"rolling {self.name}") from error

    def _snapshot(self, *, sync: bool) -> None:
        """Writes the producers' state; a lost one only costs replaying more of the log."""
        end = self.log_end_offset
        if end in self._segments.snapshots:
            return
        data = producer_snapshot.encode(list(self._producers.by_id.values()))
        path = self._segments.snapshot_path(end)
        try:
            write_file(self._files.fs, path, data, sync=sync)
        except OSError:
            remove_if_there(self._files.fs, path)
            raise
        self._segments.snapshots = sorted([*self._segments.snapshots, end])

    def _snapshot_if_there_is_room(self, *, sync: bool) -> None:
        """Without it, producers that wrote nothing since are forgotten by a crash."""
        try:
            self._snapshot(sync=sync)
        except OSError as error:
            if not isinstance(self.directory.fault(error, f"rolling {self.name}"), DiskFull):
                raise

    def take_epochs_of(self, other: "LogFiles") -> None:
        """A copy knows the reigns of the original, also those without records."""
        self._epochs.entries = list(other._epochs.entries)
        self._epochs.changed = True

    # --- flushing and closing -------------------------------------------------------------------

    def flush(self, up_to: int | None = None) -> None:
        """Syncs everything appended before the call (or below `up_to`). Safe in any thread."""
        end = self.log_end_offset
        if not self._loaded:
            return
        self._durability.flush(
            self._segments, self._epochs, end if up_to is None else min(up_to, end)
        )

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether flush.ms has passed, a closed segment waits to be made safe, or a flush is owed.

        The second keeps recovery short: it scans only what no flush has covered. The third is one
        that a full disk refused, unless it is under way.
        """
        if self._durability.recovery_point >= self.log_end_offset:
            return False
        flush_ms, waited_ms = self.config.flush_ms, now_ms - self._unflushed_since_ms
        # Less than nothing where the clock was set back: nobody knows how long it was.
        late = flush_ms < MAX_LONG and not 0 <= waited_ms < flush_ms
        due = late or self.unflushed_segments > 0
        return due or self.owes_flush

    @property
    def owes_flush(self) -> bool:
        """Whether records are here whose flush was promised (flush.messages) and is not done."""
        unflushed = self.log_end_offset - self._durability.recovery_point
        return unflushed >= self._rules.flush_messages

    @property
    def unflushed_segments(self) -> int:
        """How many closed segments reach past the recovery point."""
        active = self._segments.active
        if active is None or active.base_offset <= self._durability.recovery_point:
            return 0
        items = self._segments.items
        return len(items) - 1 - self._segments.slot_of(self._durability.recovery_point)

    @property
    def is_flushed(self) -> bool:
        """Whether closing has nothing to sync."""
        return not self._loaded or (
            self._durability.recovery_point == self.log_end_offset and not self._epochs.changed
        )

    def complete(self) -> None:
        """Completes the files for a clean stop; they still have to be synced."""
        if self.failure is not None or not self._loaded:
            return
        try:
            active = self._segments.active
            if active is not None:
                active.write_indexes()
                active.close()
                if self._producers.by_id or self._segments.snapshots:
                    self._snapshot(sync=False)
        except OSError as error:
            raise self.directory.fault(error, f"closing {self.name}") from error

    @property
    def manifest(self) -> str | None:
        """The line that a clean stop leaves; None if nothing is known of the files."""
        if not self._loaded:
            return self._checkpointed.manifest
        return segment_manifest.encode(
            LogManifest(
                self.log_end_offset,
                self.log_start_offset,
                crc_of_epochs(self._epochs.entries),
                tuple(
                    SegmentState(each.base_offset, each.size, each.txns.checksum)
                    for each in self._segments.items
                ),
                tuple((hole.first_offset, hole.next_offset) for hole in self._damages.holes),
            )
        )

    def write_epochs(self) -> None:
        """Writes the leader epochs; a sync of the whole file system is to follow."""
        if self._loaded and self._epochs.changed:
            path, data = f"{self.path}/{LEADER_EPOCHS}", encode_epochs(self._epochs.entries)
            # Aside first: where there is no room for it, the old file stays.
            write_file(self._files.fs, path + TEMPORARY_SUFFIX, data, sync=False)
            self._files.fs.rename(path + TEMPORARY_SUFFIX, path)
            self._epochs.changed = False

    def close(self, *, clean: bool = True, everything_synced: bool = False) -> None:
        """Ends the use of the files; `clean` completes and syncs them first.

        Whoever has completed many logs and synced their file system says `everything_synced`.
        """
        if clean and self._loaded and self.failure is None:
            self._finish_swap()
            if not everything_synced:
                self.complete()
            try:
                self._durability.close(
                    self._segments, self._epochs, self.log_end_offset, synced=everything_synced
                )
            except OSError as error:
                raise self.directory.fail(f"closing {self.name}: {error}") from error
        self.directory.damaged.discard(self.name)
        self.directory.full.discard(self.name)
        if self._failure is None:
            self._failure = LogClosed(f"{self.name} is closed")
        self._durability.gone = True
        self._segments.close()

    # --- compaction -----------------------------------------------------------------------------

    def _finish_swap(self) -> None:
        """Completes a swap of segments that is under way; blocks, where it cannot wait."""
        if self._swap is None:
            return
        try:
            self._swap.finish()
        except OSError as error:
            raise self.directory.fault(error, f"compacting {self.name}") from error
        self._swap = None
