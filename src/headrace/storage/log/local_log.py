"""The files and the state of one partition's log: opening, rolling, flushing.

The order of file operations is the guarantee here: a crash after any of them leaves a directory
from which recovery restores every flushed record. File names are made durable before the log's end
depends on them.

`Log` is the public interface. Appending, reading, time lookup, deletion, truncation, compaction and
closing are separate modules that work on a `LocalLog`.
"""

import logging
import zlib

from headrace.storage.cleaning.swap import Swap
from headrace.storage.errors import DiskFull, LogCorrupt, RecordsDamaged, StorageError
from headrace.storage.files.filesystem import FileSystem, remove_if_exists, write_file
from headrace.storage.files.log_dir_state import LogDirState
from headrace.storage.log.append_validation import AppendRules
from headrace.storage.log.durability import Durability
from headrace.storage.recovery.log_loader import Checkpointed, load_log
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.segments import Segments
from headrace.storage.state import producer_snapshot
from headrace.storage.state.damage import Damage
from headrace.storage.state.damaged_ranges import DamagedRanges
from headrace.storage.state.leader_epochs import LeaderEpochs
from headrace.storage.state.log_config import COMPACT, MAX_LONG, LogConfig
from headrace.storage.state.partition_metadata import write_topic_id
from headrace.storage.state.producers import ProducerStates

log = logging.getLogger(__package__)


class LocalLog:
    """The segments of one log, and its state: leader epochs, producers, recovery point."""

    __slots__ = (
        "checkpointed",
        "config",
        "damaged_ranges",
        "directory",
        "durability",
        "epochs",
        "has_topic_id_file",
        "is_loaded",
        "log_end_offset",
        "log_failure",
        "log_start_offset",
        "name",
        "path",
        "producers",
        "roll_after_ms",
        "rules",
        "segments",
        "swap",
        "topic_id",
        "truncations",
        "unflushed_since_ms",
    )

    def __init__(
        self,
        directory: LogDirState,
        name: str,
        path: str,
        *,
        topic_id: bytes,
        config: LogConfig,
        checkpointed: Checkpointed,
        is_new: bool,
    ) -> None:
        self.name = name
        self.path = path
        self.directory = directory
        self.topic_id = topic_id
        self.checkpointed = checkpointed
        self.log_start_offset = checkpointed.log_start_offset
        self.log_end_offset = max(checkpointed.log_start_offset, checkpointed.recovery_point)
        self.segments = Segments(directory.files, path)
        self.producers = ProducerStates()
        self.epochs = LeaderEpochs()
        self.durability = Durability(
            directory, self.log_end_offset, new_directory=is_new or not checkpointed.clean
        )
        self.damaged_ranges = DamagedRanges()
        self.log_failure: StorageError | None = None  # a failure of this log, not of its directory
        self.swap: Swap | None = None  # the swap of compacted segments in progress
        self.truncations = 0
        self.unflushed_since_ms = 0
        self.has_topic_id_file = not is_new
        self.is_loaded = is_new
        self.reconfigure(config)

    @property
    def fs(self) -> FileSystem:
        return self.directory.files.fs

    def reconfigure(self, config: LogConfig) -> None:
        """Takes effect with the next append."""
        self.config = config
        self.rules = AppendRules(config)
        # Spreads the rolls of many partitions over time; the same partition gets the same jitter.
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        if jitter_ms > 0:
            jitter_ms = zlib.crc32(self.name.encode()) % jitter_ms
        roll_after_ms = config.segment_ms
        if COMPACT in config.cleanup_policy:
            # The active segment is not compacted, so it must not keep records past the lag.
            roll_after_ms = min(roll_after_ms, config.max_compaction_lag_ms)
        self.roll_after_ms = roll_after_ms - jitter_ms

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Gives the topic's id to a log whose directory does not name one."""
        self.topic_id = topic_id
        self.has_topic_id_file = False
        if self.segments.items or self.log_end_offset:
            self.write_topic_id()

    def write_topic_id(self) -> None:
        write_topic_id(self.fs, self.path, self.topic_id)
        self.has_topic_id_file = True

    # --- opening --------------------------------------------------------------------------------

    @property
    def failure(self) -> StorageError | None:
        """The reason why the log cannot be used; None if it can."""
        return self.log_failure or self.directory.failure

    def check_usable(self) -> None:
        failure = self.log_failure or self.directory.failure
        if failure is not None:
            raise failure

    def ensure_loaded(self) -> None:
        """Loads the log on first use; raises if the log has failed."""
        if self.log_failure or self.directory.failure or not self.is_loaded:
            self.check_usable()
            self.load()

    def load(self) -> None:
        """Opens the files, and recovers them if the last stop was not clean. Runs once."""
        if self.is_loaded:
            return
        self.check_usable()
        try:
            loaded = load_log(self.directory.files, self.path, self.config, self.checkpointed)
            if loaded.segments.items and not self.has_topic_id_file:
                self.write_topic_id()
        except LogCorrupt as error:
            self.log_failure = error
            self.directory.damaged.add(self.name)
            log.error("log is offline", extra={"log": self.name, "reason": str(error)})
            raise
        except OSError as error:
            raise self.directory.fault(error, f"opening {self.name}") from error
        self.segments = loaded.segments
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.durability.lower_recovery_point(loaded.log_end_offset)
        self.damaged_ranges.holes = loaded.holes
        for hole in loaded.holes:
            self.record_damage(hole)
        if not self.checkpointed.clean:
            self.durability.file_created()
        self.is_loaded = True
        if self.checkpointed.expendable:
            # Recovery must not expect the truncated records. Without this, the next opening after a
            # crash would report damage.
            self.directory.save_recovery_points()

    # --- damage ---------------------------------------------------------------------------------

    @property
    def is_damaged(self) -> bool:
        """Whether bytes that were safe on disk cannot be read any more.

        A log with damage found at opening is offline; a log in use serves its readable parts.
        """
        return isinstance(self.log_failure, LogCorrupt) or bool(self.damaged_ranges)

    def record_damage(self, damage: Damage) -> RecordsDamaged:
        """Remembers the damage, logs it once, and returns the error for the reader."""
        error = damage.error()
        if self.damaged_ranges.add(damage):
            log.error("log is damaged", extra={"log": self.name, "reason": str(error)})
        self.directory.damaged.add(self.name)
        return error

    def take_damaged_offline(self) -> None:
        """Refuses reads and writes of a damaged log, so that another replica can serve them."""
        if self.damaged_ranges and self.log_failure is None:
            reason = self.damaged_ranges.first.error()
            self.log_failure = LogCorrupt(f"{self.name} is offline: {reason}")

    def serve_undamaged_records(self) -> bool:
        """Brings a damaged log back online; returns whether it was offline.

        A log that did not open stays offline: its readable parts are unknown.
        """
        if not (self.is_loaded and isinstance(self.log_failure, LogCorrupt)):
            return False
        self.log_failure = None
        return True

    # --- rolling --------------------------------------------------------------------------------

    def roll(self, *, is_doomed: bool = False) -> Segment:
        """Closes the active segment and begins a new one at the log's end.

        The order matters: a crash after any step leaves a log that recovery opens the same way.
        `is_doomed` says that the closed segment is about to be deleted: a disk that is too full for
        its indexes must not prevent that.
        """
        self.ensure_loaded()
        segments, end = self.segments, self.log_end_offset
        closed = segments.active
        strict = self.config.flush_messages != MAX_LONG
        try:
            if closed is not None:
                if closed.base_offset == end:
                    return closed
                if is_doomed:
                    self._write_snapshot_if_room(sync=strict)
                else:
                    closed.write_indexes()
                    self.write_snapshot(sync=strict)
            elif not self.has_topic_id_file:
                # Before the first record and not earlier: this halves the time to create ten
                # thousand partitions, and an empty directory may belong to any topic.
                self.write_topic_id()
            return self.durability.roll(segments, closed, end, strict=strict)
        except OSError as error:
            raise self.directory.fault(error, f"rolling {self.name}") from error

    def write_snapshot(self, *, sync: bool) -> None:
        """Writes the producers' state. Without it, recovery reads more of the log."""
        end = self.log_end_offset
        if end in self.segments.snapshots:
            return
        data = producer_snapshot.encode(list(self.producers.by_id.values()))
        path = self.segments.snapshot_path(end)
        try:
            write_file(self.fs, path, data, sync=sync)
        except OSError:
            remove_if_exists(self.fs, path)
            raise
        self.segments.snapshots = sorted([*self.segments.snapshots, end])

    def _write_snapshot_if_room(self, *, sync: bool) -> None:
        """Without the snapshot, a crash loses the state of producers with no later records."""
        try:
            self.write_snapshot(sync=sync)
        except OSError as error:
            if not isinstance(self.directory.fault(error, f"rolling {self.name}"), DiskFull):
                raise

    # --- flushing -------------------------------------------------------------------------------

    def flush(self, up_to: int | None = None) -> None:
        """Syncs everything appended before the call (or below `up_to`). Safe in any thread."""
        end = self.log_end_offset
        if not self.is_loaded:
            return
        self.durability.flush(self.segments, self.epochs, end if up_to is None else min(up_to, end))

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether flush.ms has passed, a closed segment is not synced, or a flush is overdue.

        Syncing closed segments keeps recovery short: it scans only batches that no flush has
        covered. A flush is overdue if a full disk has refused it.
        """
        if self.durability.recovery_point >= self.log_end_offset:
            return False
        flush_ms, waited_ms = self.config.flush_ms, now_ms - self.unflushed_since_ms
        # A negative wait means that the clock was set back: the true wait is unknown.
        is_late = flush_ms < MAX_LONG and not 0 <= waited_ms < flush_ms
        return is_late or self.unflushed_segments > 0 or self.has_overdue_flush

    @property
    def has_overdue_flush(self) -> bool:
        """Whether the flush that `flush.messages` requires for the log's records is not done."""
        unflushed = self.log_end_offset - self.durability.recovery_point
        return unflushed >= self.rules.flush_messages

    @property
    def unflushed_segments(self) -> int:
        """The number of closed segments that reach past the recovery point."""
        active = self.segments.active
        if active is None or active.base_offset <= self.durability.recovery_point:
            return 0
        items = self.segments.items
        return len(items) - 1 - self.segments.slot_of(self.durability.recovery_point)

    # --- compaction -----------------------------------------------------------------------------

    def finish_swap(self) -> None:
        """Completes a swap of segments that is in progress. Blocks."""
        if self.swap is None:
            return
        try:
            self.swap.finish()
        except OSError as error:
            raise self.directory.fault(error, f"compacting {self.name}") from error
        self.swap = None
