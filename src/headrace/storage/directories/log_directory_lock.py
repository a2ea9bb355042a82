"""Opening and closing one log directory: lock, identity, checkpoints, clean-shutdown marker.

The marker says that every file in the directory is complete. It is removed, durably, before the
first write, and written last: a start that finds it may skip recovery.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from headrace.records.checksum import crc32c
from headrace.storage.directories import directory_names
from headrace.storage.directories.directory_names import DELETE_SUFFIX, PartitionName
from headrace.storage.directories.meta_properties import MetaProperties, read_meta, write_meta
from headrace.storage.directories.metadata_version import (
    UNKNOWN,
    read_metadata_version,
    write_metadata_version,
)
from headrace.storage.errors import InconsistentLogDir, LogDirLocked, StorageError
from headrace.storage.files.delayed_delete import DelayedDelete
from headrace.storage.files.filesystem import (
    FileSystem,
    exists,
    make_directories,
    read_file,
    remove_if_there,
    replace_file,
)
from headrace.storage.files.log_dir import LogDir
from headrace.storage.files.open_files import OpenFiles
from headrace.storage.log import clean_shutdown
from headrace.storage.log.log import Log
from headrace.storage.state import segment_manifest
from headrace.storage.state.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    read_offsets,
    write_offsets,
)
from headrace.storage.state.segment_manifest import SEGMENT_MANIFEST

log = logging.getLogger(__name__)

LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1
BROKER_EPOCH = "brokerEpoch"
MANIFEST_CRC = "headraceSegments"  # of the list of segments that the same stop wrote
# From this many logs on, one sync of the file system is faster than a sync of each file.
MANY_LOGS = 64


class LogDirectoryLock:
    """One directory, and the logs in it."""

    __slots__ = (
        "_checkpointed_names",
        "_fs",
        "_knows_cleaner_offsets",
        "_lock_fd",
        "_saved_version",
        "_writing",
        "clean_epoch",
        "cleaned_to",
        "directory",
        "found_futures",
        "futures",
        "high_watermarks",
        "log_starts",
        "logs",
        "manifests",
        "meta",
        "partitions",
        "recovery_points",
        "strays",
        "was_clean",
    )

    def __init__(
        self,
        path: str,
        files: OpenFiles,
        trash: DelayedDelete,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._fs: FileSystem = files.fs
        self._lock_fd = -1
        self._writing = threading.Lock()  # the owner and a background thread write the same files
        self.directory = LogDir(path, files, trash, self.checkpoint, on_failure)
        self.logs: dict[str, Log] = {}
        self.futures: dict[str, Log] = {}  # copies, by the names of their originals
        self.meta: MetaProperties | None = None
        self.was_clean = False
        self.clean_epoch = NO_BROKER_EPOCH  # of the broker run that stopped cleanly
        self.recovery_points: dict[str, int] = {}
        self.log_starts: dict[str, int] = {}
        self.high_watermarks: dict[str, int] = {}
        self.cleaned_to: dict[str, int] = {}  # the cleaner's checkpoint
        self._knows_cleaner_offsets = True
        self.manifests: dict[str, str] = {}  # the state of each log at the last clean stop
        self.partitions: list[PartitionName] = []  # found when the directory was opened
        self.found_futures: list[str] = []
        self.strays: list[str] = []
        self._saved_version = UNKNOWN
        self._checkpointed_names: set[str] = set()  # names in the checkpoint files

    @property
    def path(self) -> str:
        return self.directory.path

    @property
    def is_online(self) -> bool:
        return self.directory.failure is None

    # --- opening --------------------------------------------------------------------------------

    def open(self, cluster_id: str | None, node_id: int) -> None:
        """Locks and reads the directory.

        Raises if it belongs to another broker; a disk error takes the directory offline.
        """
        try:
            make_directories(self._fs, self.path)
            self._lock_directory()
            self._check_identity(cluster_id, node_id)
            self._read_checkpoints()
            self._list_partitions()
            marker = f"{self.path}/{CLEAN_SHUTDOWN}"
            self.was_clean = exists(self._fs, marker)
            if self.was_clean:
                left = _marker_fields(read_file(self._fs, marker))
                self.clean_epoch = left.get(BROKER_EPOCH, NO_BROKER_EPOCH)
                self._read_manifest(left.get(MANIFEST_CRC))
            if remove_if_there(self._fs, marker):
                self._fs.fsync_dir(self.path)
        except OSError as error:
            self.directory.fail(f"opening failed: {error}")

    def _lock_directory(self) -> None:
        try:
            self._lock_fd = self._fs.lock(f"{self.path}/{LOCK}")
        except BlockingIOError:
            raise LogDirLocked(
                f"{self.path} is in use by another broker: stop it or configure another directory"
            ) from None

    def _check_identity(self, cluster_id: str | None, node_id: int) -> None:
        self.meta = meta = read_meta(self._fs, self.path)
        if meta is None:
            return
        if cluster_id is not None and meta.cluster_id != cluster_id:
            raise InconsistentLogDir(
                f"{self.path} belongs to cluster {meta.cluster_id}, this broker to {cluster_id}: "
                "configure another log directory"
            )
        if meta.node_id != node_id:
            raise InconsistentLogDir(
                f"{self.path} belongs to node {meta.node_id}, this broker is node {node_id}: "
                "correct node.id or configure another log directory"
            )

    def known_version(self, cluster_id: str | None) -> int:
        """The last version of that cluster's metadata that the directory has seen."""
        try:
            meta = read_meta(self._fs, self.path)
            if meta is None or meta.cluster_id != cluster_id:
                return UNKNOWN
            return read_metadata_version(self._fs, self.path)
        except (OSError, InconsistentLogDir):  # `open` reports it
            return UNKNOWN

    def claim(self, meta: MetaProperties) -> None:
        """Assigns a new directory to this node."""
        self.meta = meta
        write_meta(self._fs, self.path, meta)

    def _read_checkpoints(self) -> None:
        """A damaged file counts as missing: recovery then scans everything."""
        for name, offsets in (
            (RECOVERY_POINTS, self.recovery_points),
            (LOG_STARTS, self.log_starts),
            (HIGH_WATERMARKS, self.high_watermarks),
            (CLEANER_OFFSETS, self.cleaned_to),
        ):
            try:
                offsets.update(read_offsets(self._fs, f"{self.path}/{name}"))
            except CorruptCheckpoint as error:
                log.warning(
                    "ignoring a damaged checkpoint",
                    extra={"reason": str(error)},
                )
                self._knows_cleaner_offsets &= name != CLEANER_OFFSETS
        self._checkpointed_names = {*self.recovery_points, *self.log_starts}

    def _read_manifest(self, expected_crc: int | None) -> None:
        """Reads the list of segments, unless Kafka or an older release has stopped last."""
        path = f"{self.path}/{SEGMENT_MANIFEST}"
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

    def _list_partitions(self) -> None:
        for name, is_dir in self._fs.list_dir(self.path):
            if not is_dir:
                continue
            partition = directory_names.parse(name)
            if name.endswith(DELETE_SUFFIX):
                self.directory.trash.add_tree(f"{self.path}/{name}")
            elif directory_names.original_of(name) is not None:
                self.found_futures.append(name)
            elif partition is None:
                self.strays.append(name)
                log.warning(
                    "ignoring a directory that is not a partition",
                    extra={"path": f"{self.path}/{name}"},
                )
            else:
                self.partitions.append(partition)

    def may_be_cleaned(self, name: str) -> bool:
        """Whether the log may have been compacted."""
        return name in self.cleaned_to or not self._knows_cleaner_offsets

    # --- checkpoints ----------------------------------------------------------------------------

    def forget(self, name: str) -> None:
        """Drops the checkpoints of a name before a new partition gets it."""
        for offsets in (self.recovery_points, self.log_starts, self.high_watermarks):
            offsets.pop(name, None)
        self.manifests.pop(name, None)
        self.cleaned_to.pop(name, None)
        if name in self._checkpointed_names and name not in self.logs:
            self.checkpoint()

    @property
    def _all_logs(self) -> list[tuple[str, Log]]:
        """Partitions and copies. A partition and its copy are never in the same directory."""
        return [*self.logs.items(), *self.futures.items()]

    def checkpoint(self, high_watermarks: Mapping[str, int] | None = None) -> None:
        """Writes each log's start offset and recovery point. Safe in any thread.

        Without `high_watermarks` the file of high watermarks stays as it is: only the owner knows
        them, and too high a value would make uncommitted records look committed after a crash.
        """
        if not self.is_online:
            return
        logs = self._all_logs
        with self._writing:
            # Read under the lock, so that an older value never overwrites a newer one.
            points = {name: each.recovery_point for name, each in logs}
            starts = {name: each.log_start_offset for name, each in logs if each.log_start_offset}
            try:
                write_offsets(self._fs, f"{self.path}/{RECOVERY_POINTS}", points)
                write_offsets(self._fs, f"{self.path}/{LOG_STARTS}", starts)
                if high_watermarks is not None:
                    self._write_watermarks(high_watermarks)
            except OSError as error:
                raise self.directory.fault(error, f"checkpointing {self.path}") from error
            self._checkpointed_names = {*points, *starts}

    def checkpoint_watermarks(self, high_watermarks: Mapping[str, int]) -> None:
        """Writes each log's high watermark. Safe in any thread."""
        if not self.is_online:
            return
        with self._writing:
            try:
                self._write_watermarks(high_watermarks)
            except OSError as error:
                raise self.directory.fault(error, f"checkpointing {self.path}") from error

    def _write_watermarks(self, high_watermarks: Mapping[str, int]) -> None:
        ours = {name: high_watermarks[name] for name in [*self.logs] if name in high_watermarks}
        write_offsets(self._fs, f"{self.path}/{HIGH_WATERMARKS}", ours)

    def save_metadata_version(self, version: int) -> None:
        """Writes the version of the cluster's metadata. Safe in any thread."""
        if not self.is_online or version == self._saved_version:
            return
        try:
            write_metadata_version(self._fs, self.path, version)
        except OSError as error:
            raise self.directory.fault(error, f"checkpointing {self.path}") from error
        self._saved_version = version

    def save_cleaned(self, name: str, offset: int) -> None:
        """Writes that the log is clean below `offset`. Safe in any thread."""
        self.cleaned_to[name] = offset
        known = {each: at for each, at in [*self.cleaned_to.items()] if each in self.logs}
        with self._writing:
            try:
                write_offsets(self._fs, f"{self.path}/{CLEANER_OFFSETS}", known)
            except OSError as error:
                raise self.directory.fault(error, f"checkpointing {self.path}") from error

    # --- closing --------------------------------------------------------------------------------

    def close(
        self,
        *,
        clean: bool,
        high_watermarks: Mapping[str, int] | None,
        broker_epoch: int = NO_BROKER_EPOCH,
    ) -> None:
        """Closes every log; if none fails, writes the marker with the broker's epoch."""
        complete = (
            clean and self.is_online and all(each.failure is None for _, each in self._all_logs)
        )
        synced = clean and self.is_online and self._sync_file_system()
        for _, each in self._all_logs:
            try:
                each.close(clean=clean, everything_synced=synced)
            except StorageError as error:
                # No traceback: there may be thousands of logs.
                log.error(
                    "could not close a log; it is recovered at the next start",
                    extra={"log": each.name, "reason": str(error)},
                )
                complete = False
        if complete:
            if high_watermarks is None:  # these logs are not replicated
                high_watermarks = {name: each.log_end_offset for name, each in self.logs.items()}
            try:
                self.checkpoint(high_watermarks)
                self._write_marker(broker_epoch)
            except (StorageError, OSError) as error:
                log.error(
                    "could not close the log directory; its logs are recovered at the next start",
                    extra={"path": self.path, "reason": str(error)},
                )
        if self._lock_fd >= 0:
            self._fs.close(self._lock_fd)
            self._lock_fd = -1

    def _sync_file_system(self) -> bool:
        """Syncs the whole file system if many logs are unflushed; returns whether it did."""
        unflushed = [
            each for _, each in self._all_logs if not clean_shutdown.is_flushed(each.local)
        ]
        if len(unflushed) < MANY_LOGS:
            return False
        try:
            for _, each in self._all_logs:
                clean_shutdown.complete_files(each.local)
                clean_shutdown.write_epochs(each.local)
            self._fs.sync_all(self.path)
        except (StorageError, OSError) as error:
            self.directory.fail(f"sync failed: {error}")
            return False
        return True

    def _write_marker(self, broker_epoch: int) -> None:
        lines = [(name, clean_shutdown.manifest_line(each.local)) for name, each in self._all_logs]
        manifest = segment_manifest.encode_all(
            (name, line) for name, line in lines if line is not None
        )
        replace_file(self._fs, f"{self.path}/{SEGMENT_MANIFEST}", manifest)
        crc = crc32c(manifest)
        text = json.dumps({"version": 0, BROKER_EPOCH: broker_epoch, MANIFEST_CRC: crc})
        replace_file(self._fs, f"{self.path}/{CLEAN_SHUTDOWN}", text.encode())


def _marker_fields(marker: bytes) -> dict[str, int]:
    """The fields of a marker; older markers are empty files."""
    try:
        fields = json.loads(marker)
        return {name: value for name, value in fields.items() if isinstance(value, int)}
    except (ValueError, AttributeError):
        return {}


def fewest(homes: Iterable[LogDirectoryLock]) -> LogDirectoryLock | None:
    """The online directory with the fewest partitions."""
    return min((home for home in homes if home.is_online), key=lambda h: len(h.logs), default=None)
