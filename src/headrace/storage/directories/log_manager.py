"""All the logs of one broker, over one or more log directories.

Guarantees: a directory is used by one broker at a time; a partition has one log; after a clean
stop, opening needs a listing and a few small reads, regardless of the logs' size; a failed
directory takes only its own logs offline.

Threads: `sweep` and `checkpoint` may run in any thread, everything else in the owner's.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from headrace.clock import Clock
from headrace.protocol.types import encode_uuid
from headrace.storage.directories import moved_logs
from headrace.storage.directories.future_logs import FutureLogs
from headrace.storage.directories.log_directory import (
    NO_BROKER_EPOCH,
    LogDirectory,
    with_fewest_logs,
)
from headrace.storage.directories.meta_properties import MetaProperties
from headrace.storage.directories.stale_metadata import check_metadata_version
from headrace.storage.directories.stray_logs import NO_TOPIC_ID, StrayLog, StrayLogs
from headrace.storage.errors import (
    InconsistentTopicId,
    LogDirFailed,
    StorageError,
)
from headrace.storage.files.delayed_delete import DelayedDelete
from headrace.storage.files.filesystem import FileSystem
from headrace.storage.files.open_files import OpenFiles, default_open_files
from headrace.storage.log.log import Log
from headrace.storage.recovery.log_loader import Checkpointed
from headrace.storage.state.log_config import COMPACT, LogConfig
from headrace.storage.state.partition_metadata import read_topic_id

log = logging.getLogger(__package__)

__all__ = ["NO_TOPIC_ID", "LogManager"]


class LogManager:
    """Opens, creates, finds and deletes logs.

    `new_id` returns 16 random bytes for the ids of clusters, directories and deleted partitions.
    `metadata_version` is the version that the cluster has stored: directories that know a later one
    are not opened. `on_failure` is called, in any thread, for every directory that goes offline.
    """

    def __init__(
        self,
        dirs: Sequence[str],
        fs: FileSystem,
        clock: Clock,
        *,
        new_id: Callable[[], bytes],
        node_id: int = 0,
        cluster_id: str | None = None,
        metadata_version: int | None = None,
        max_open_files: int | None = None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        if not dirs:
            raise ValueError("a broker needs at least one log directory: set log.dirs")
        self._fs = fs
        self._clock = clock
        self._new_id = new_id
        self._node_id = node_id
        self.cluster_id = cluster_id
        self._stored_version = metadata_version
        self.accepts_any_metadata = False  # an operator has allowed it, for this start
        self._files = OpenFiles(fs, max_open_files or default_open_files())
        self._delayed_delete = DelayedDelete(fs, clock.monotonic)
        self.directories = [
            LogDirectory(path.rstrip("/"), self._files, self._delayed_delete, on_failure)
            for path in dirs
        ]
        self._logs: dict[tuple[str, int], Log] = {}
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        self.stray_logs = StrayLogs(fs, new_id)
        self.futures = FutureLogs(self.directories, fs, new_id)

    # --- opening --------------------------------------------------------------------------------

    def open(self, config_of: Callable[[str], LogConfig] = lambda _topic: LogConfig()) -> None:
        """Locks the directories and finds their logs; recovers those that were not closed cleanly.

        A log that cannot be recovered has a `failure`. Raises only if another broker uses a
        directory, if one belongs to another node, if two hold the same partition and it is unknown
        which one is current, or if no directory works.
        """
        if self._stored_version is not None:
            self.accepts_any_metadata = check_metadata_version(
                self.directories, self.cluster_id, self._stored_version
            )
        try:
            for directory in self.directories:
                directory.open(self.cluster_id, self._node_id)
                if directory.meta is not None:
                    self.cluster_id = self.cluster_id or directory.meta.cluster_id
            self._claim_new_directories()
            superseded = moved_logs.exclude_superseded(self._fs, self.directories)
            for directory in self.directories:
                try:
                    self._find_logs(directory, config_of)
                    self.stray_logs.find_strays(directory)
                except OSError as error:
                    directory.state.fail(
                        f"cannot read {error.filename or directory.path}: "
                        f"{error.strerror or error}; its partitions stay offline until this is "
                        "fixed and the broker restarts"
                    )
            moved_logs.remove_superseded(
                self._fs, self.directories, superseded, self._logs, self._new_id
            )
        except StorageError:
            self.close(clean=False)
            raise
        self.futures.find_copies(self._logs, config_of, self.stray_logs, self._clock.wall_ms())
        failure = self.failure
        if failure is not None:
            self.close(clean=False)
            raise failure

    @property
    def failure(self) -> LogDirFailed | None:
        """The reason why no log can be used; None while a directory works."""
        if any(each.is_online for each in self.directories):
            return None
        failures = "; ".join(str(each.state.failure) for each in self.directories)
        return LogDirFailed(f"no log directory works: {failures}")

    def _claim_new_directories(self) -> None:
        if self.cluster_id is None:
            self.cluster_id = encode_uuid(self._new_id())
        for directory in self.directories:
            if directory.is_online and directory.meta is None:
                directory_id = encode_uuid(self._new_id())
                meta = MetaProperties(self.cluster_id, self._node_id, directory_id)
                try:
                    directory.claim(meta)
                except OSError as error:
                    directory.state.fault(error, f"claiming {directory.path}")

    def _find_logs(self, directory: LogDirectory, config_of: Callable[[str], LogConfig]) -> None:
        checkpoints = directory.checkpoints
        partitions = directory.partitions if directory.is_online else []
        began_s, is_unclean = self._clock.monotonic(), bool(partitions) and not directory.was_clean
        if is_unclean:
            log.warning(
                "the last stop was not clean; recovering the logs of a directory",
                extra={"dir": directory.path, "logs": len(partitions)},
            )
        for topic, partition in partitions:
            name = f"{topic}-{partition}"
            config = config_of(topic)
            found = Log(
                directory.state,
                topic,
                partition,
                topic_id=read_topic_id(self._fs, f"{directory.path}/{name}") or NO_TOPIC_ID,
                config=config,
                checkpointed=checkpoints.of_log(
                    name,
                    clean=directory.was_clean,
                    may_have_gaps=COMPACT in config.cleanup_policy
                    or checkpoints.may_be_cleaned(name),
                ),
            )
            self._add_log(directory, found)
            if not (directory.was_clean and name in checkpoints.recovery_points):
                try:
                    found.load()
                except StorageError as error:
                    log.warning(
                        "could not open a log; its partition is offline",
                        extra={"log": name, "reason": str(error)},
                    )
        if is_unclean:
            log.info(
                "recovered the logs of a directory",
                extra={
                    "dir": directory.path,
                    "logs": len(partitions),
                    "ms": round((self._clock.monotonic() - began_s) * 1000),
                },
            )

    def _add_log(self, directory: LogDirectory, added: Log) -> None:
        self._logs[added.topic, added.partition] = added
        directory.logs[added.name] = added

    # --- logs -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def get_or_create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        *,
        is_new: bool = False,
    ) -> Log:
        """The partition's log, created if it is missing.

        While a directory is offline a missing log may be in it: only a partition that `is_new`
        is then created in another directory.
        """
        found = self._logs.get((topic, partition))
        if found is None:
            return self._create(topic, partition, topic_id, config, is_new=is_new)
        if found.topic_id == NO_TOPIC_ID:
            try:
                found.assign_topic_id(topic_id)
            except OSError as error:
                raise found.directory.fault(error, f"opening {found.name}") from error
        elif found.topic_id != topic_id:
            raise InconsistentTopicId(
                f"{found.path} holds topic id {encode_uuid(found.topic_id)}, "
                f"not {encode_uuid(topic_id)}: delete the directory first"
            )
        if found.config is not config:
            found.reconfigure(config)
        return found

    def _create(
        self, topic: str, partition: int, topic_id: bytes, config: LogConfig, *, is_new: bool
    ) -> Log:
        stray = self.stray_logs.find(topic, partition, topic_id)
        if stray is not None:
            return self.restore_stray(stray, config)
        directory = self._preferred.pop((topic, partition), None) or with_fewest_logs(
            self.directories
        )
        offline = next((each for each in self.directories if not each.is_online), None)
        if offline is not None and (directory is None or not is_new):
            raise offline.state.failure or LogDirFailed("no log directory is online")
        assert directory is not None
        name = f"{topic}-{partition}"
        directory.forget(name)
        path = f"{directory.path}/{name}"
        try:
            self._fs.mkdir(path)
        except OSError as error:
            raise directory.state.fault(error, f"creating {name}") from error
        created = Log(
            directory.state,
            topic,
            partition,
            topic_id=topic_id,
            config=config,
            checkpointed=Checkpointed(clean=True, recovery_point=0, log_start_offset=0),
            new=True,
        )
        self._add_log(directory, created)
        return created

    def delete(self, topic: str, partition: int) -> bool:
        """Closes and renames the log for a later sweep; returns whether there was one."""
        doomed = self._logs.get((topic, partition))
        if doomed is None:
            return False
        self.futures.drop(topic, partition)  # first: a crash must not leave only the copy
        del self._logs[topic, partition]
        directory = self._directory_of(doomed)
        del directory.logs[doomed.name]
        doomed.close(clean=False)
        delay_ms = doomed.config.file_delete_delay_ms
        try:
            directory.delete_later(
                doomed.name, doomed.name, self._new_id().hex(), delay_ms=delay_ms
            )
        except OSError as error:
            raise directory.state.fault(error, f"deleting {doomed.name}") from error
        return True

    # --- stray logs -----------------------------------------------------------------------------

    def make_stray(self, topic: str, partition: int) -> StrayLog | None:
        """Makes the partition's log a stray log, whose files are kept; None if there is no log."""
        unknown = self._logs.get((topic, partition))
        if unknown is None:
            return None
        self.futures.drop(topic, partition)
        del self._logs[topic, partition]
        directory = self._directory_of(unknown)
        del directory.logs[unknown.name]
        return self.stray_logs.make_stray(unknown, directory, self._clock.wall_ms())

    def restore_stray(self, stray: StrayLog, config: LogConfig) -> Log:
        """Makes a stray log its partition's log again, with all its records."""
        restored = self.stray_logs.restore(stray, config)
        self._preferred.pop(stray.partition, None)
        self._add_log(stray.directory, restored)
        with suppress(StorageError):  # on a full disk; a directory that fails has logged it
            # The log may be compacted: recovery must expect gaps.
            stray.directory.save_cleaner_offset(
                stray.metadata.name, stray.metadata.log_start_offset
            )
        log.warning("restored a stray log", extra={"log": restored.name, "path": restored.path})
        return restored

    def expire_strays(self, retention_ms: int) -> int:
        """Deletes stray logs that are older than the retention time; returns how many."""
        return self.stray_logs.expire(retention_ms, self._clock.wall_ms())

    # --- moving between directories --------------------------------------------------------------

    def directory_at(self, path: str) -> LogDirectory | None:
        """The log directory with that path."""
        return next((each for each in self.directories if each.path == path.rstrip("/")), None)

    def prefer_directory(self, topic: str, partition: int, directory: LogDirectory) -> None:
        """Chooses the directory for this partition's log, if one is created later."""
        self._preferred[topic, partition] = directory

    def finish_move(self, original: Log) -> Log:
        """Replaces the original by its copy in another directory; returns the copy, open.

        The copy gets the partition's name before the original loses it. While both have the name, a
        note on disk says which one is current. So after a crash at any point one log has all
        records, and the next start can find it.
        """
        source = self._directory_of(original)
        directory, moved = self.futures.promote_copy(original, source)
        cleaned_to = source.checkpoints.cleaner_offsets.pop(original.name, None)
        try:
            self.delete(original.topic, original.partition)
            moved_logs.remove_note_after_move(
                self._fs, self.directories, source, directory, original.name
            )
        except StorageError as error:
            # The copy is the partition's log: the note stays until the next start.
            log.error(
                "could not remove the old files of a moved replica; the next start removes them",
                extra={"log": original.name, "path": source.path, "error": str(error)},
            )
        self._add_log(directory, moved)
        if cleaned_to is not None:
            with suppress(StorageError):  # on a full disk: the log is cleaned again
                directory.save_cleaner_offset(moved.name, cleaned_to)
        moved.load()
        return moved

    # --- upkeep ---------------------------------------------------------------------------------

    def sweep(self) -> int:
        """Removes the files that are due; returns how many paths. Safe in any thread."""
        return self._delayed_delete.sweep()

    def logs_due_for_flush(self, now_ms: int) -> list[Log]:
        """The logs that are due for a flush (flush.ms, closed segments)."""
        return [each for each in self._logs.values() if each.flush_is_due(now_ms)]

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets idle producers of the logs that are open; returns how many."""
        return sum(each.expire_producers(now_ms, expiration_ms) for each in self._logs.values())

    def checkpoint(self, high_watermarks: Mapping[str, int] | None = None) -> None:
        """Writes recovery points, log starts and high watermarks. Safe in any thread."""
        self._for_each_directory(lambda each: each.checkpoint(high_watermarks))

    def save_metadata_version(self, version: int) -> None:
        """Writes the version of the cluster's metadata that is known. Safe in any thread."""
        self._for_each_directory(lambda each: each.save_metadata_version(version))

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[str, int]) -> None:
        """Writes high watermarks alone, which change often. Safe in any thread."""
        self._for_each_directory(lambda each: each.checkpoint_high_watermarks(high_watermarks))

    def _for_each_directory(self, write: Callable[[LogDirectory], None]) -> None:
        """Calls `write` for every directory, then raises the last error."""
        failure: StorageError | None = None
        for directory in self.directories:
            try:
                write(directory)
            except StorageError as error:
                failure = error
        if failure is not None:
            raise failure

    def cleaner_offset(self, cleaned: Log) -> int | None:
        """The offset below which the log is clean; None if it was never cleaned."""
        return self._directory_of(cleaned).checkpoints.cleaner_offsets.get(cleaned.name)

    def save_cleaner_offset(self, cleaned: Log, offset: int) -> None:
        """Writes the offset below which the log is clean. Safe in any thread."""
        self._directory_of(cleaned).save_cleaner_offset(cleaned.name, offset)

    def _directory_of(self, placed: Log) -> LogDirectory:
        return next(each for each in self.directories if each.state is placed.directory)

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """The checkpointed high watermark of the last stop."""
        name = f"{topic}-{partition}"
        for directory in self.directories:
            if name in directory.checkpoints.high_watermarks:
                return directory.checkpoints.high_watermarks[name]
        return None

    @property
    def unknown_directories(self) -> list[str]:
        """Directories that do not belong to a partition; reported, never removed."""
        return [
            f"{each.path}/{name}" for each in self.directories for name in each.unknown_directories
        ]

    @property
    def pending_deletes(self) -> int:
        """The number of paths that later sweeps will remove."""
        return len(self._delayed_delete)

    @property
    def open_files(self) -> int:
        return len(self._files)

    @property
    def directory_ids(self) -> tuple[str, ...]:
        """The ids of the online directories; a new disk has a new id."""
        return tuple(
            each.meta.directory_id
            for each in self.directories
            if each.meta is not None and each.meta.directory_id and each.is_online
        )

    @property
    def clean_epoch(self) -> int | None:
        """The epoch of the broker's last run, if all directories were closed cleanly."""
        epochs = {
            each.clean_epoch if each.was_clean else NO_BROKER_EPOCH for each in self.directories
        }
        epoch = epochs.pop()
        return None if epochs or epoch == NO_BROKER_EPOCH else epoch

    def close(
        self,
        *,
        clean: bool = True,
        high_watermarks: Mapping[str, int] | None = None,
        broker_epoch: int = NO_BROKER_EPOCH,
    ) -> None:
        """Closes every log and releases the directories."""
        for directory in self.directories:
            directory.close(clean=clean, high_watermarks=high_watermarks, broker_epoch=broker_epoch)
        self._logs.clear()
