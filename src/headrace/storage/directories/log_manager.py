"""All the logs of one broker, over one or more log directories.

Guarantees: a directory is used by one broker at a time; a partition has one log; after a clean stop
opening costs a listing and a few small reads, whatever the logs hold; a failed directory takes only
its own logs with it.

Threads: `sweep` and `checkpoint` may run beside the owner's thread. Everything else belongs to it.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from headrace.clock import Clock
from headrace.storage.directories import directory_names, moved_logs
from headrace.storage.directories.future_logs import FutureLogs
from headrace.storage.directories.log_directory_lock import (
    NO_BROKER_EPOCH,
    LogDirectoryLock,
    fewest,
)
from headrace.storage.directories.meta_properties import MetaProperties
from headrace.storage.directories.metadata_version import ANY, ANY_WORD, METADATA_VERSION
from headrace.storage.directories.stray_logs import (
    STRAY_METADATA,
    StrayLog,
    StrayLogs,
    StrayNote,
    write_note,
)
from headrace.storage.errors import (
    InconsistentTopicId,
    LogDirFailed,
    StaleMetadata,
    StorageError,
)
from headrace.storage.files.delayed_delete import DelayedDelete
from headrace.storage.files.filesystem import FileSystem, remove_if_there
from headrace.storage.files.open_files import OpenFiles, default_open_files
from headrace.storage.log.log import Log
from headrace.storage.recovery.log_loader import Checkpointed
from headrace.storage.state.log_config import COMPACT, LogConfig
from headrace.storage.state.partition_metadata import encode_topic_id, read_topic_id

log = logging.getLogger(__name__)

NO_TOPIC_ID = bytes(16)


class LogManager:
    """Opens, creates, finds and deletes logs.

    `new_id` gives 16 random bytes; ids of clusters, directories and deleted partitions come
    from it. `metadata_version` is the one that the cluster has stored: directories that have
    seen a later one are not opened. `on_failure` hears of every directory that goes offline, in
    any thread.
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
            raise ValueError("a broker needs at least one log directory")
        self._fs = fs
        self._clock = clock
        self._new_id = new_id
        self._node_id = node_id
        self.cluster_id = cluster_id
        self._stored_version = metadata_version
        self.takes_any_metadata = False  # a person has said so, for this start
        self._files = OpenFiles(fs, max_open_files or default_open_files())
        self._trash = DelayedDelete(fs, clock.monotonic)
        self.homes = [
            LogDirectoryLock(path.rstrip("/"), self._files, self._trash, on_failure)
            for path in dirs
        ]
        self._logs: dict[tuple[str, int], Log] = {}
        self._preferred: dict[tuple[str, int], LogDirectoryLock] = {}
        self.set_aside = StrayLogs()
        self.futures = FutureLogs(self.homes, fs, self._trash, new_id)

    # --- opening --------------------------------------------------------------------------------

    def open(self, config_of: Callable[[str], LogConfig] = lambda _topic: LogConfig()) -> None:
        """Takes the directories and finds their logs; recovers those that were not closed well.

        A log that cannot be recovered is there, with its `failure`. Raises only if another broker
        holds a directory, if one is another node's, if two have the same partition and nothing
        says which is right, or if none works.
        """
        if self._stored_version is not None:
            self._check_age(self._stored_version)
        try:
            for home in self.homes:
                home.open(self.cluster_id, self._node_id)
                if home.meta is not None:
                    self.cluster_id = self.cluster_id or home.meta.cluster_id
            self._claim()
            superseded = moved_logs.take_superseded(self._fs, self.homes)
            for home in self.homes:
                self._find_logs(home, config_of)
                self.set_aside.take_in(self._fs, home)
            self._remove_superseded(superseded)
        except StorageError:
            self.close(clean=False)
            raise
        self.futures.take_in(self._logs, config_of, self.set_aside, self._clock.wall_ms())
        failure = self.failure
        if failure is not None:
            self.close(clean=False)
            raise failure

    def _check_age(self, stored: int) -> None:
        """Before anything is touched: the next start may be with what belongs to these logs."""
        known = {home.path: home.known_version(self.cluster_id) for home in self.homes}
        self.takes_any_metadata = ANY in known.values()
        latest = max(known.values())
        if latest > stored:
            files = " and ".join(f"{path}/{METADATA_VERSION}" for path in known)
            raise StaleMetadata(
                f"the cluster's metadata has version {stored}, this broker's directories have "
                f"seen {latest}: was ZooKeeper restored from an old backup? What was "
                "made since is unknown there, and leaders may be elected that miss acknowledged "
                "records. Restore what it had. Where that is lost, stop all brokers and, on each "
                f"of them, write the word {ANY_WORD} into {files}: logs of unknown topics are then "
                "set aside, and leaders are those that the backup knows as in sync"
            )

    @property
    def failure(self) -> LogDirFailed | None:
        """Why nothing can be kept any more; None while a directory works."""
        if any(home.is_online for home in self.homes):
            return None
        failures = "; ".join(str(home.directory.failure) for home in self.homes)
        return LogDirFailed(f"no log directory works: {failures}")

    def _remove_superseded(self, superseded: list[tuple[LogDirectoryLock, str]]) -> None:
        """A crash has left these beside the copies that took their places."""
        for home, name in superseded:
            owner = next(each for each in self._logs.values() if each.name == name)
            try:
                owner.load()
            except StorageError as error:
                # Perhaps the other one is all that is left of it: a person is to decide.
                raise moved_logs.twice(name, home.path, owner.directory.path) from error
            target = f"{home.path}/{directory_names.deleted(name, self._new_id().hex())}"
            try:
                self._fs.rename(f"{home.path}/{name}", target)
                self._fs.fsync_dir(home.path)
            except OSError as error:
                home.directory.fault(error, f"removing {name}")
                continue
            self._trash.add_tree(target)
            log.warning("finished a move", extra={"log": name, "to": owner.directory.path})
        if all(home.is_online for home in self.homes):
            moved_logs.forget_all(self._fs, self.homes)

    def _claim(self) -> None:
        if self.cluster_id is None:
            self.cluster_id = encode_topic_id(self._new_id())
        for home in self.homes:
            if home.is_online and home.meta is None:
                directory_id = encode_topic_id(self._new_id())
                meta = MetaProperties(self.cluster_id, self._node_id, directory_id)
                try:
                    home.claim(meta)
                except OSError as error:
                    home.directory.fault(error, f"claiming {home.path}")

    def _find_logs(self, home: LogDirectoryLock, config_of: Callable[[str], LogConfig]) -> None:
        for topic, partition in home.partitions if home.is_online else ():
            name = f"{topic}-{partition}"
            config = config_of(topic)
            found = Log(
                home.directory,
                topic,
                partition,
                topic_id=read_topic_id(self._fs, f"{home.path}/{name}") or NO_TOPIC_ID,
                config=config,
                checkpointed=Checkpointed(
                    clean=home.was_clean,
                    recovery_point=home.recovery_points.get(name, 0),
                    log_start_offset=home.log_starts.get(name, 0),
                    manifest=home.manifests.get(name),
                    may_have_gaps=COMPACT in config.cleanup_policy or home.may_be_cleaned(name),
                ),
            )
            self._add(home, found)
            if not (home.was_clean and name in home.recovery_points):
                try:
                    found.load()
                except StorageError as error:
                    log.warning("a log did not open", extra={"log": name, "reason": str(error)})

    def _add(self, home: LogDirectoryLock, added: Log) -> None:
        self._logs[added.topic, added.partition] = added
        home.logs[added.name] = added

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
        """The partition's log, made if there is none.

        While a directory is offline a missing log may be in it: only a partition that `is_new`
        is then made elsewhere.
        """
        found = self._logs.get((topic, partition))
        if found is None:
            return self._create(topic, partition, topic_id, config, is_new=is_new)
        if found.topic_id == NO_TOPIC_ID:
            try:
                found.adopt(topic_id)
            except OSError as error:
                raise found.directory.fault(error, f"opening {found.name}") from error
        elif found.topic_id != topic_id:
            raise InconsistentTopicId(
                f"{found.path} holds topic id {encode_topic_id(found.topic_id)}, "
                f"not {encode_topic_id(topic_id)}: delete it first"
            )
        if found.config is not config:
            found.reconfigure(config)
        return found

    def _create(
        self, topic: str, partition: int, topic_id: bytes, config: LogConfig, *, is_new: bool
    ) -> Log:
        stray = self.set_aside.find(topic, partition, topic_id)
        if stray is not None:
            return self.put_back(stray, config)
        home = self._preferred.pop((topic, partition), None) or fewest(self.homes)
        offline = next((each for each in self.homes if not each.is_online), None)
        if offline is not None and (home is None or not is_new):
            raise offline.directory.failure or LogDirFailed("no log directory is online")
        assert home is not None
        name = f"{topic}-{partition}"
        home.forget(name)
        path = f"{home.path}/{name}"
        try:
            self._fs.mkdir(path)
        except OSError as error:
            raise home.directory.fault(error, f"creating {name}") from error
        created = Log(
            home.directory,
            topic,
            partition,
            topic_id=topic_id,
            config=config,
            checkpointed=Checkpointed(clean=True, recovery_point=0, log_start_offset=0),
            new=True,
        )
        self._add(home, created)
        return created

    def delete(self, topic: str, partition: int) -> bool:
        """Gives up the log; its files go with a later sweep. Whether there was one."""
        doomed = self._logs.get((topic, partition))
        if doomed is None:
            return False
        self.futures.drop(topic, partition)  # first: a crash must not leave it as the only one
        del self._logs[topic, partition]
        home = self._home_of(doomed)
        del home.logs[doomed.name]
        doomed.close(clean=False)
        target = f"{home.path}/{directory_names.deleted(doomed.name, self._new_id().hex())}"
        try:
            self._fs.rename(doomed.path, target)
        except OSError as error:
            raise home.directory.fault(error, f"deleting {doomed.name}") from error
        self._trash.add_tree(target, doomed.config.file_delete_delay_ms)
        return True

    # --- setting aside --------------------------------------------------------------------------

    def put_aside(self, topic: str, partition: int) -> StrayLog | None:
        """Takes the log out of use and keeps its files; None if there is none."""
        unknown = self._logs.get((topic, partition))
        if unknown is None:
            return None
        self.futures.drop(topic, partition)
        del self._logs[topic, partition]
        home = self._home_of(unknown)
        del home.logs[unknown.name]
        with suppress(StorageError):  # damaged: what there is of it is kept all the same
            unknown.close(clean=True)
        note = StrayNote(
            unknown.name,
            self._clock.wall_ms(),
            unknown.recovery_point,
            unknown.log_start_offset,
            home.high_watermarks.get(unknown.name, unknown.log_start_offset),
        )
        name = directory_names.stray(unknown.name, self._new_id().hex())
        try:
            write_note(self._fs, unknown.path, note)
            self._fs.rename(unknown.path, f"{home.path}/{name}")
            self._fs.fsync_dir(home.path)
        except OSError as error:
            raise home.directory.fault(error, f"setting {unknown.name} aside") from error
        topic_id = None if unknown.topic_id == NO_TOPIC_ID else unknown.topic_id
        stray = StrayLog(home, name, topic_id, note)
        self.set_aside.add(stray)
        return stray

    def put_back(self, stray: StrayLog, config: LogConfig) -> Log:
        """A log that was set aside is its partition's again, with all that it held."""
        home, note = stray.home, stray.note
        topic, partition = stray.partition
        home.forget(note.name)
        path = f"{home.path}/{note.name}"
        try:
            self._fs.rename(stray.path, path)
            self._fs.fsync_dir(home.path)
            remove_if_there(self._fs, f"{path}/{STRAY_METADATA}")
        except OSError as error:
            raise home.directory.fault(error, f"putting {note.name} back") from error
        self.set_aside.remove(stray)
        self._preferred.pop((topic, partition), None)
        home.high_watermarks[note.name] = note.high_watermark
        found = Log(
            home.directory,
            topic,
            partition,
            topic_id=stray.topic_id or NO_TOPIC_ID,
            config=config,
            checkpointed=Checkpointed(
                clean=False,
                recovery_point=note.recovery_point,
                log_start_offset=note.log_start_offset,
            ),
        )
        self._add(home, found)
        with suppress(StorageError):  # a full disk; a directory that fails has said so
            home.save_cleaned(note.name, note.log_start_offset)  # it may be compacted, with gaps
        log.warning("a log that was set aside is back", extra={"log": note.name, "path": path})
        return found

    def expire_set_aside(self, retention_ms: int) -> int:
        """Gives up what was set aside for long enough; its files go with a later sweep."""
        now_ms = self._clock.wall_ms()
        expired = 0
        for stray in self.set_aside:
            due_ms = stray.due_ms(retention_ms)
            if due_ms is None or due_ms > now_ms or not stray.home.is_online:
                continue
            name = directory_names.deleted(stray.note.name, self._new_id().hex())
            target = f"{stray.home.path}/{name}"
            try:
                self._fs.rename(stray.path, target)
            except FileNotFoundError:
                pass  # somebody has removed it by hand
            except OSError as error:
                raise stray.home.directory.fault(error, f"deleting {stray.path}") from error
            else:
                self._trash.add_tree(target)
                log.warning("removed a log that was set aside", extra={"path": stray.path})
            self.set_aside.remove(stray)
            expired += 1
        return expired

    # --- moving between directories --------------------------------------------------------------

    def home_at(self, path: str) -> LogDirectoryLock | None:
        """The log directory with that path."""
        return next((home for home in self.homes if home.path == path.rstrip("/")), None)

    def prefer(self, topic: str, partition: int, home: LogDirectoryLock) -> None:
        """Should this partition get a log here, it goes into that directory."""
        self._preferred[topic, partition] = home

    def finish_move(self, original: Log) -> Log:
        """The copy in another directory takes the original's place; returns it, open.

        Its name is given before the original's is taken away, and who is right is noted while
        both are there: a crash at any point leaves one log with everything, and the next start
        knows which one.
        """
        source = self._home_of(original)
        home, moved = self.futures.take_over(original, source)
        cleaned_to = source.cleaned_to.pop(original.name, None)
        try:
            self.delete(original.topic, original.partition)
            self._settle_move(source, home, original.name)
        except StorageError as error:
            # The copy has the partition all the same: the note stays until the next start.
            log.error(
                "a moved replica's old files remain",
                extra={"log": original.name, "path": source.path, "error": str(error)},
            )
        self._add(home, moved)
        if cleaned_to is not None:
            with suppress(StorageError):  # a full disk: it is cleaned again
                home.save_cleaned(moved.name, cleaned_to)
        moved.load()
        return moved

    def _settle_move(self, source: LogDirectoryLock, home: LogDirectoryLock, name: str) -> None:
        """The old name is gone for good before the note is.

        While a directory is offline the note stays: an earlier move may have left the name there.
        """
        try:
            self._fs.fsync_dir(source.path)
        except OSError as error:
            raise source.directory.fault(error, f"moving {name}") from error
        if not all(each.is_online for each in self.homes):
            return
        try:
            moved_logs.forget(self._fs, home.path, name)
        except OSError as error:
            raise home.directory.fault(error, f"moving {name}") from error

    # --- upkeep ---------------------------------------------------------------------------------

    def sweep(self) -> int:
        """Removes the files whose time has come; returns how many paths. Safe in a thread."""
        return self._trash.sweep()

    def flush_due(self, now_ms: int) -> list[Log]:
        """The logs that want a flush (flush.ms, closed segments), to be flushed in a thread."""
        return [each for each in self._logs.values() if each.flush_is_due(now_ms)]

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets idle producers of the logs that are open; returns how many."""
        return sum(each.expire_producers(now_ms, expiration_ms) for each in self._logs.values())

    def checkpoint(self, high_watermarks: Mapping[str, int] | None = None) -> None:
        """Writes recovery points, log starts and high watermarks. Safe in a thread."""
        self._in_each(lambda home: home.checkpoint(high_watermarks))

    def save_metadata_version(self, version: int) -> None:
        """Notes, on disk, which version of the cluster's metadata is known. Safe in a thread."""
        self._in_each(lambda home: home.save_metadata_version(version))

    def checkpoint_watermarks(self, high_watermarks: Mapping[str, int]) -> None:
        """Writes high watermarks alone, which move all the time. Safe in a thread."""
        self._in_each(lambda home: home.checkpoint_watermarks(high_watermarks))

    def _in_each(self, write: Callable[[LogDirectoryLock], None]) -> None:
        """One directory that is full, or has failed, does not keep the others from their part."""
        failure: StorageError | None = None
        for home in self.homes:
            try:
                write(home)
            except StorageError as error:
                failure = error
        if failure is not None:
            raise failure

    def cleaned_to(self, of: Log) -> int | None:
        """The offset below which the log is clean, as far as the cleaner has said."""
        return self._home_of(of).cleaned_to.get(of.name)

    def save_cleaned(self, of: Log, offset: int) -> None:
        """Notes how far the log is clean, on disk as well. Safe in a thread."""
        self._home_of(of).save_cleaned(of.name, offset)

    def _home_of(self, of: Log) -> LogDirectoryLock:
        return next(each for each in self.homes if each.directory is of.directory)

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """What the checkpoint said at the last stop."""
        name = f"{topic}-{partition}"
        for home in self.homes:
            if name in home.high_watermarks:
                return home.high_watermarks[name]
        return None

    @property
    def strays(self) -> list[str]:
        """Directories that are no partition's; reported, never removed."""
        return [f"{home.path}/{name}" for home in self.homes for name in home.strays]

    @property
    def waiting_removals(self) -> int:
        """Paths that a sweep will remove when their time has come."""
        return len(self._trash)

    @property
    def open_files(self) -> int:
        return len(self._files)

    @property
    def directory_ids(self) -> tuple[str, ...]:
        """Of the directories that work: a new disk has a new one."""
        return tuple(
            home.meta.directory_id
            for home in self.homes
            if home.meta is not None and home.meta.directory_id and home.is_online
        )

    @property
    def clean_epoch(self) -> int | None:
        """The epoch of the broker's last life, if all directories say that it stopped cleanly."""
        epochs = {home.clean_epoch if home.was_clean else NO_BROKER_EPOCH for home in self.homes}
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
        for home in self.homes:
            home.close(clean=clean, high_watermarks=high_watermarks, broker_epoch=broker_epoch)
        self._logs.clear()
