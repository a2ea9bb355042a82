"""One log directory of a broker: its lock, identity, logs and clean-shutdown marker.

The marker says that every file in the directory is complete. It is removed, durably, before the
first write, and written last: a start that finds it may skip recovery.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from headrace.records.checksum import crc32c
from headrace.storage.directories import directory_names
from headrace.storage.directories.directory_names import DELETE_SUFFIX, PartitionName
from headrace.storage.directories.meta_properties import MetaProperties, read_meta, write_meta
from headrace.storage.directories.metadata_version_file import (
    UNKNOWN,
    read_metadata_version,
    write_metadata_version,
)
from headrace.storage.directories.offset_checkpoints import OffsetCheckpoints
from headrace.storage.errors import InconsistentLogDir, LogDirLocked, StorageError
from headrace.storage.files.delayed_delete import DelayedDelete
from headrace.storage.files.filesystem import (
    FileSystem,
    exists,
    make_directories,
    read_file,
    remove_if_exists,
    replace_file,
)
from headrace.storage.files.log_dir_state import LogDirState
from headrace.storage.files.open_files import OpenFiles
from headrace.storage.log import clean_shutdown
from headrace.storage.log.log import Log
from headrace.storage.state import segment_manifest
from headrace.storage.state.segment_manifest import SEGMENT_MANIFEST

log = logging.getLogger(__package__)

LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1
BROKER_EPOCH = "brokerEpoch"
MANIFEST_CRC = "headraceSegments"  # checksum of the list of segments of the same stop
# From this many logs on, one sync of the file system is faster than a sync of each file.
MANY_LOGS = 64


class LogDirectory:
    """One directory, and the logs in it."""

    __slots__ = (
        "_fs",
        "_lock_fd",
        "_saved_version",
        "checkpoints",
        "clean_epoch",
        "found_futures",
        "futures",
        "logs",
        "meta",
        "partitions",
        "state",
        "unknown_directories",
        "was_clean",
    )

    def __init__(
        self,
        path: str,
        files: OpenFiles,
        delayed_delete: DelayedDelete,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._fs: FileSystem = files.fs
        self._lock_fd = -1
        self.state = LogDirState(path, files, delayed_delete, self.checkpoint, on_failure)
        self.logs: dict[str, Log] = {}
        self.futures: dict[str, Log] = {}  # copies, by the names of their originals
        self.meta: MetaProperties | None = None
        self.was_clean = False
        self.clean_epoch = NO_BROKER_EPOCH  # epoch of the broker run that stopped cleanly
        self.checkpoints = OffsetCheckpoints(self._fs, path)
        self.partitions: list[PartitionName] = []  # found when the directory was opened
        self.found_futures: list[str] = []
        self.unknown_directories: list[str] = []
        self._saved_version = UNKNOWN

    @property
    def path(self) -> str:
        return self.state.path

    @property
    def is_online(self) -> bool:
        return self.state.failure is None

    # --- opening --------------------------------------------------------------------------------

    def open(self, cluster_id: str | None, node_id: int) -> None:
        """Locks and reads the directory.

        Raises if it belongs to another broker; a disk error takes the directory offline.
        """
        try:
            make_directories(self._fs, self.path)
            self._lock_directory()
            self._check_identity(cluster_id, node_id)
            self.checkpoints.read()
            self._list_partitions()
            marker = f"{self.path}/{CLEAN_SHUTDOWN}"
            self.was_clean = exists(self._fs, marker)
            if self.was_clean:
                left = _marker_fields(read_file(self._fs, marker))
                self.clean_epoch = left.get(BROKER_EPOCH, NO_BROKER_EPOCH)
                self.checkpoints.read_manifest(left.get(MANIFEST_CRC))
            if remove_if_exists(self._fs, marker):
                self._fs.fsync_dir(self.path)
        except OSError as error:
            self.state.fail(f"opening failed: {error}")

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

    def known_metadata_version(self, cluster_id: str | None) -> int:
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

    def _list_partitions(self) -> None:
        for name, is_dir in self._fs.list_dir(self.path):
            if not is_dir or name == directory_names.SECURITY:
                continue
            partition = directory_names.parse(name)
            if name.endswith(DELETE_SUFFIX):
                self.state.delayed_delete.add_tree(f"{self.path}/{name}")
            elif directory_names.original_of(name) is not None:
                self.found_futures.append(name)
            elif partition is None:
                self.unknown_directories.append(name)
                log.warning(
                    "ignoring a directory that is not a partition",
                    extra={"path": f"{self.path}/{name}"},
                )
            else:
                self.partitions.append(partition)

    # --- checkpoints ----------------------------------------------------------------------------

    def forget(self, name: str) -> None:
        """Drops the checkpoints of a name before a new partition gets it."""
        if self.checkpoints.forget(name) and name not in self.logs:
            self.checkpoint()

    @property
    def _all_logs(self) -> list[tuple[str, Log]]:
        """Partitions and copies. A partition and its copy are never in the same directory."""
        return [*self.logs.items(), *self.futures.items()]

    def checkpoint(self, high_watermarks: Mapping[str, int] | None = None) -> None:
        """Writes each log's start offset and recovery point. Safe in any thread.

        Without `high_watermarks` the file of high watermarks is not written: only the owner knows
        them, and too high a value would make uncommitted records look committed after a crash.
        """
        if not self.is_online:
            return
        logs = self._all_logs
        with self._checkpoint_errors():
            self.checkpoints.write(logs)
            if high_watermarks is not None:
                self._write_high_watermarks(high_watermarks)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[str, int]) -> None:
        """Writes each log's high watermark. Safe in any thread."""
        if not self.is_online:
            return
        with self._checkpoint_errors():
            self._write_high_watermarks(high_watermarks)

    def _write_high_watermarks(self, high_watermarks: Mapping[str, int]) -> None:
        ours = {name: high_watermarks[name] for name in [*self.logs] if name in high_watermarks}
        self.checkpoints.write_high_watermarks(ours)

    def save_metadata_version(self, version: int) -> None:
        """Writes the version of the cluster's metadata. Safe in any thread."""
        if not self.is_online or version == self._saved_version:
            return
        with self._checkpoint_errors():
            write_metadata_version(self._fs, self.path, version)
        self._saved_version = version

    def save_cleaner_offset(self, name: str, offset: int) -> None:
        """Writes that the log is clean below `offset`. Safe in any thread."""
        with self._checkpoint_errors():
            self.checkpoints.write_cleaner_offset(name, offset, self.logs)

    @contextmanager
    def _checkpoint_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self.state.fault(error, f"checkpointing {self.path}") from error

    # --- deleting -------------------------------------------------------------------------------

    def delete_later(
        self, name: str, original: str, unique: str, *, delay_ms: int = 0, sync: bool = False
    ) -> None:
        """Renames the directory `name` of the partition `original` for a later sweep.

        After the rename, a start does not load it as a log. Raises `OSError`.
        """
        target = f"{self.path}/{directory_names.deleted(original, unique)}"
        self._fs.rename(f"{self.path}/{name}", target)
        if sync:
            self._fs.fsync_dir(self.path)
        self.state.delayed_delete.add_tree(target, delay_ms)

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
            self.state.fail(f"sync failed: {error}")
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


def with_fewest_logs(directories: Iterable[LogDirectory]) -> LogDirectory | None:
    """The online directory with the fewest partitions."""
    online = (each for each in directories if each.is_online)
    return min(online, key=lambda each: len(each.logs), default=None)
