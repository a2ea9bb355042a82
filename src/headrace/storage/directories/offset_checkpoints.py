"""The checkpointed offsets of all logs in one log directory, by the logs' names.

The files are Kafka's. After a clean stop the list of segments in the same directory confirms the
recovery points and start offsets.
"""

import logging
import threading
from collections.abc import Collection, Iterable

from headrace.records.checksum import crc32c
from headrace.storage.files.filesystem import FileSystem, exists, read_file
from headrace.storage.log.log import Log
from headrace.storage.recovery.log_loader import Checkpointed
from headrace.storage.state import segment_manifest
from headrace.storage.state.checkpoint_file import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    read_offsets,
    write_offsets,
)
from headrace.storage.state.segment_manifest import SEGMENT_MANIFEST

log = logging.getLogger(__package__)


class OffsetCheckpoints:
    """The contents of the checkpoint files when the directory was opened; also writes the files."""

    __slots__ = (
        "_fs",
        "_knows_cleaner_offsets",
        "_names",
        "_path",
        "_writing",
        "cleaner_offsets",
        "high_watermarks",
        "log_starts",
        "manifests",
        "recovery_points",
    )

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._writing = threading.Lock()  # the owner and a background thread write the same files
        self.recovery_points: dict[str, int] = {}
        self.log_starts: dict[str, int] = {}
        self.high_watermarks: dict[str, int] = {}
        self.cleaner_offsets: dict[str, int] = {}
        self._knows_cleaner_offsets = True
        self.manifests: dict[str, str] = {}  # the state of each log at the last clean stop
        self._names: set[str] = set()  # names in the files of recovery points and log starts

    # --- reading --------------------------------------------------------------------------------

    def read(self) -> None:
        """Reads the files. A damaged file counts as missing: recovery then scans everything."""
        for name, offsets in (
            (RECOVERY_POINTS, self.recovery_points),
            (LOG_STARTS, self.log_starts),
            (HIGH_WATERMARKS, self.high_watermarks),
            (CLEANER_OFFSETS, self.cleaner_offsets),
        ):
            try:
                offsets.update(read_offsets(self._fs, f"{self._path}/{name}"))
            except CorruptCheckpoint as error:
                log.warning("ignoring a damaged checkpoint", extra={"reason": str(error)})
                self._knows_cleaner_offsets &= name != CLEANER_OFFSETS
        self._names = {*self.recovery_points, *self.log_starts}

    def read_manifest(self, expected_crc: int | None) -> None:
        """Reads the list of segments, unless Kafka or an older release has stopped last."""
        path = f"{self._path}/{SEGMENT_MANIFEST}"
        if expected_crc is None or not exists(self._fs, path):
            return
        data = read_file(self._fs, path)
        if crc32c(data) != expected_crc:
            log.warning("ignoring a damaged list of segments", extra={"path": path})
            return
        self.manifests = segment_manifest.decode_all(data)
        for name, line in self.manifests.items():
            end, start = segment_manifest.ends_in(line)
            for offsets, offset in ((self.recovery_points, end), (self.log_starts, start)):
                if offsets.get(name, 0) != offset:
                    log.warning(
                        "checkpoint differs from the clean stop; using the clean stop's offset",
                        extra={"log": name, "found": offsets.get(name, 0), "expected": offset},
                    )
                offsets[name] = offset

    def may_be_cleaned(self, name: str) -> bool:
        """Whether the log may have been compacted."""
        return name in self.cleaner_offsets or not self._knows_cleaner_offsets

    def of_log(
        self, name: str, *, clean: bool, may_have_gaps: bool = True, expendable: bool = False
    ) -> Checkpointed:
        """The checkpointed state of one log, before its files are read."""
        return Checkpointed(
            clean=clean,
            recovery_point=self.recovery_points.get(name, 0),
            log_start_offset=self.log_starts.get(name, 0),
            manifest=self.manifests.get(name),
            may_have_gaps=may_have_gaps,
            expendable=expendable,
        )

    # --- writing --------------------------------------------------------------------------------

    def forget(self, name: str) -> bool:
        """Drops the checkpoints of a log; returns whether the files still have its name."""
        for offsets in (self.recovery_points, self.log_starts, self.high_watermarks):
            offsets.pop(name, None)
        self.manifests.pop(name, None)
        self.cleaner_offsets.pop(name, None)
        return name in self._names

    def write(self, logs: Iterable[tuple[str, Log]]) -> None:
        """Writes the recovery point and the start offset of each log. Safe in any thread."""
        with self._writing:
            # Read under the lock, so that an older value never overwrites a newer one.
            points = {name: each.recovery_point for name, each in logs}
            starts = {name: each.log_start_offset for name, each in logs if each.log_start_offset}
            write_offsets(self._fs, f"{self._path}/{RECOVERY_POINTS}", points)
            write_offsets(self._fs, f"{self._path}/{LOG_STARTS}", starts)
            self._names = {*points, *starts}

    def write_high_watermarks(self, high_watermarks: dict[str, int]) -> None:
        """Writes the high watermarks. Safe in any thread."""
        with self._writing:
            write_offsets(self._fs, f"{self._path}/{HIGH_WATERMARKS}", high_watermarks)

    def write_cleaner_offset(self, name: str, offset: int, logs: Collection[str]) -> None:
        """Writes that a log is clean below `offset`; `logs` are the names to keep in the file."""
        self.cleaner_offsets[name] = offset
        known = {each: at for each, at in [*self.cleaner_offsets.items()] if each in logs}
        with self._writing:
            write_offsets(self._fs, f"{self._path}/{CLEANER_OFFSETS}", known)
