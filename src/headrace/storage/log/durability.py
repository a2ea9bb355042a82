"""The offset up to which a log is synced to disk.

Every batch below `recovery_point` is synced, with its segment's name and, for segments that end
below it, the indexes. Recovery may truncate the log above it, but not below.

Threads: `flush` may run in another thread while the owner appends and rolls; it covers everything
appended before the call. One flush runs at a time. The owner takes `lock` for truncation, which
must not run during a flush.
"""

import threading

from headrace.storage.errors import LogClosed
from headrace.storage.files.filesystem import (
    FileSystem,
    parent_of,
    rename_into_place,
    sync_file,
    write_temporary,
)
from headrace.storage.files.log_dir_state import LogDirState
from headrace.storage.files.open_files import OpenFile
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.segments import Segments
from headrace.storage.state.checkpoint_file import LEADER_EPOCHS, encode_epochs
from headrace.storage.state.leader_epochs import LeaderEpochs
from headrace.storage.state.partition_metadata import PARTITION_METADATA


class Durability:
    """The recovery point of one log, and the files that are not synced yet."""

    __slots__ = (
        "_directory",
        "_new_directory",
        "_new_names",
        "_point_lock",
        "is_closed",
        "lock",
        "recovery_point",
    )

    def __init__(self, directory: LogDirState, recovery_point: int, *, new_directory: bool) -> None:
        self._directory = directory
        self._new_directory = new_directory
        self._new_names = False
        self._point_lock = threading.Lock()
        self.is_closed = False  # the log was closed, and its files may be renamed or deleted
        self.lock = threading.Lock()
        self.recovery_point = recovery_point

    def file_created(self) -> None:
        """Called after a file was created: the next flush must sync its name."""
        self._new_names = True

    def lower_recovery_point(self, offset: int) -> None:
        """Lowers the recovery point to `offset`, because the log is truncated there."""
        with self._point_lock:
            self.recovery_point = min(self.recovery_point, offset)

    def roll(
        self, segments: Segments, closed: Segment | None, base_offset: int, *, strict: bool
    ) -> Segment:
        """Begins a new segment at `base_offset`, the end of `closed`.

        `strict` syncs the closed segment first: a log that flushes before each acknowledgement must
        never hold a later batch without an earlier one. Otherwise its indexes are synced only if
        the recovery point already covers its batches: a flush in progress does not sync them.
        """
        with self._point_lock:
            if closed is not None and (strict or self.recovery_point >= base_offset):
                try:
                    self.sync(segments.fs, closed, with_indexes=True)
                    segments.fs.fsync_dir(segments.path)  # the names of the indexes
                except OSError as error:
                    raise self._directory.fail(f"sync failed: {error}") from error
            added = segments.add(base_offset)
            self._new_names = True
            return added

    def flush(self, segments: Segments, epochs: LeaderEpochs, end_offset: int) -> None:
        """Syncs everything below `end_offset`; raises `LogDirFailed` if a sync fails.

        If the disk is too full for the leader epochs, it raises `DiskFull`: the log is intact, and
        the next flush tries again.
        """
        with self.lock:
            if self._directory.failure is not None:
                raise self._directory.failure
            if end_offset <= self.recovery_point and not (self._new_names or epochs.changed):
                return
            try:
                self._flush(segments, epochs, end_offset)
            except FileNotFoundError as error:
                if self.is_closed:  # deleted during the flush
                    raise LogClosed(f"{segments.path} was closed") from error
                raise self._directory.fail(f"sync failed: {error}") from error
            except OSError as error:
                # After a failed sync it is unknown which bytes are on disk.
                raise self._directory.fail(f"sync failed: {error}") from error

    def _flush(self, segments: Segments, epochs: LeaderEpochs, end_offset: int) -> None:
        fs = segments.fs
        items = segments.from_offset(self.recovery_point)
        for segment in items:
            if segment.base_offset < end_offset:
                self.sync(fs, segment, with_indexes=segment is not items[-1])
        if epochs.changed:
            self._write_epochs(segments, epochs)
        self.sync_names(segments)
        with self._point_lock:
            following = segments.following(items[-1]) if items else None
            if following is not None:
                # Rolled during the flush: its indexes are not synced, so recovery must scan it.
                end_offset = min(end_offset, following.base_offset - 1)
            self.recovery_point = max(self.recovery_point, end_offset)

    def _write_epochs(self, segments: Segments, epochs: LeaderEpochs) -> None:
        path = f"{segments.path}/{LEADER_EPOCHS}"
        epochs.changed = False
        try:
            write_temporary(segments.fs, path, encode_epochs(list(epochs.entries)))
        except FileNotFoundError:
            raise
        except OSError as error:
            epochs.changed = True
            raise self._directory.fault(error, f"writing {path}") from error
        rename_into_place(segments.fs, path)

    def close(
        self, segments: Segments, epochs: LeaderEpochs, end_offset: int, *, synced: bool
    ) -> None:
        """The last flush; unless `synced`, with the active segment's indexes and the snapshot."""
        if synced and self._directory.failure is None:
            self.recovery_point = end_offset
            return
        self.flush(segments, epochs, end_offset)
        if segments.active is not None:
            self.sync(segments.fs, segments.active, with_indexes=True)
            sync_file(segments.fs, segments.snapshot_path(end_offset))
            segments.fs.fsync_dir(segments.path)

    def sync_names(self, segments: Segments) -> None:
        """Syncs the names of the log's files, and the name of its directory if that is new."""
        fs = segments.fs
        if self._new_names:
            self._new_names = False
            fs.fsync_dir(segments.path)
        if self._new_directory:
            sync_file(fs, f"{segments.path}/{PARTITION_METADATA}")
            fs.fsync_dir(parent_of(segments.path))
            self._new_directory = False

    def sync(self, fs: FileSystem, segment: Segment, *, with_indexes: bool) -> None:
        """Syncs a segment. Clears each flag first: a write during the sync sets it again."""
        if segment.removed:
            return
        if segment.dirty:
            segment.dirty = False
            self._sync_file(fs, segment, segment.file)
        if with_indexes:
            for file in segment.open_files()[1:]:
                if file.dirty:
                    self._sync_file(fs, segment, file)

    @staticmethod
    def _sync_file(fs: FileSystem, segment: Segment, file: OpenFile) -> None:
        try:
            with file.pinned() as fd:
                file.dirty = False
                fs.fsync(fd)
        except FileNotFoundError:
            if not segment.removed:  # retention may have deleted it meanwhile
                raise
