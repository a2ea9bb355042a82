"""Future logs: copies that grow in another log directory, to replace their originals.

As in Apache Kafka, a copy is in `<topic>-<partition>.<id>-future` and survives a restart. It is a
prefix of the original, or is truncated to one: by leader epochs, and after a crash by comparing
the records that the original may have lost. While the original exists, the copy is expendable: it
is truncated at damage, and the rest is copied again.

A copy without an original may be all that is left of a partition. It becomes a stray log, which is
restored if the partition needs a log.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from headrace.records.batch import headers
from headrace.storage.directories import directory_names, moved_logs
from headrace.storage.directories.log_directory_lock import LogDirectoryLock
from headrace.storage.directories.stray_logs import StrayLog, StrayLogs, StrayNote, write_note
from headrace.storage.errors import RecordsDamaged, StorageError
from headrace.storage.files.delayed_delete import DelayedDelete
from headrace.storage.files.filesystem import FileSystem
from headrace.storage.log.log import Log
from headrace.storage.recovery.log_loader import Checkpointed
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.partition_metadata import read_topic_id, write_topic_id

log = logging.getLogger(__name__)

PIECE_BYTES: Final = 1024 * 1024  # compared in one step

Key = tuple[str, int]


class FutureLogs:
    """The copies of one broker, at most one of each partition."""

    def __init__(
        self,
        homes: Sequence[LogDirectoryLock],
        fs: FileSystem,
        trash: DelayedDelete,
        new_id: Callable[[], bytes],
    ) -> None:
        self._homes = homes
        self._fs = fs
        self._trash = trash
        self._new_id = new_id
        self._logs: dict[Key, tuple[LogDirectoryLock, Log]] = {}

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter([copy for _, copy in self._logs.values()])

    def get(self, topic: str, partition: int) -> Log | None:
        held = self._logs.get((topic, partition))
        return None if held is None else held[1]

    def _add_copy(self, home: LogDirectoryLock, copy: Log) -> None:
        self._logs[copy.topic, copy.partition] = home, copy
        home.futures[copy.name] = copy

    def _remove_copy(self, copy: Log) -> LogDirectoryLock:
        home, _ = self._logs.pop((copy.topic, copy.partition))
        del home.futures[copy.name]
        return home

    # --- after a start --------------------------------------------------------------------------

    def find_copies(
        self,
        originals: Mapping[Key, Log],
        config_of: Callable[[str], LogConfig],
        stray_logs: StrayLogs,
        now_ms: int,
    ) -> None:
        """Opens the copies that earlier runs left, and discards those that are of no use.

        Call this after the originals are known. While a directory is offline, a missing original
        may be in it: its copy is left alone.
        """
        is_complete = all(home.is_online for home in self._homes)
        for home in self._homes:
            for name in home.found_futures if home.is_online else ():
                partition = directory_names.original_of(name)
                assert partition is not None
                try:
                    topic_id = read_topic_id(self._fs, f"{home.path}/{name}")
                    original = originals.get(partition)
                    if original is not None:
                        self._open_copy(home, name, topic_id, original, config_of(partition.topic))
                    elif topic_id is None or not is_complete:
                        home.strays.append(name)
                        log.warning(
                            "ignoring a copy without its original",
                            extra={"path": f"{home.path}/{name}"},
                        )
                    else:
                        stray_logs.add(self._make_stray(home, name, topic_id, now_ms))
                except OSError as error:
                    home.directory.fault(error, f"opening {home.path}/{name}")
                    break

    def _open_copy(
        self,
        home: LogDirectoryLock,
        name: str,
        topic_id: bytes | None,
        original: Log,
        config: LogConfig,
    ) -> None:
        is_of_topic = topic_id is not None and original.topic_id in (topic_id, bytes(16))
        if not is_of_topic or original.directory is home.directory:
            self._discard_directory(home, name, original.name)
            return
        if (original.topic, original.partition) in self._logs:
            self._discard_directory(home, name, original.name)  # another directory has a copy, too
            return
        assert topic_id is not None
        clean = home.was_clean and original.name in home.recovery_points
        copy = Log(
            home.directory,
            original.topic,
            original.partition,
            topic_id=topic_id,
            config=config,
            checkpointed=Checkpointed(
                clean=clean,
                recovery_point=home.recovery_points.get(original.name, 0),
                log_start_offset=home.log_starts.get(original.name, 0),
                manifest=home.manifests.get(original.name),
                expendable=True,
            ),
            directory_name=name,
        )
        self._add_copy(home, copy)
        try:
            if not clean:
                copy.load()
            if original.failure is None:
                # Before the original is written to: records that it lost in a power failure may be
                # replaced by other records of the same epoch.
                copy.truncate_to(_same_until(copy, original))
        except StorageError as error:
            log.warning(
                "could not open a copy; it is copied again",
                extra={"path": copy.path, "reason": str(error)},
            )

    def _make_stray(
        self, home: LogDirectoryLock, name: str, topic_id: bytes, now_ms: int
    ) -> StrayLog:
        """Its checkpoints are not used: recovery scans the whole log when it is restored."""
        partition = directory_names.original_of(name)
        assert partition is not None
        original = f"{partition.topic}-{partition.partition}"
        start = home.log_starts.get(original, 0)
        note = StrayNote(original, now_ms, 0, start, start)
        stray_name = directory_names.stray(original, self._new_id().hex())
        write_note(self._fs, f"{home.path}/{name}", note)
        self._fs.rename(f"{home.path}/{name}", f"{home.path}/{stray_name}")
        self._fs.fsync_dir(home.path)
        stray = StrayLog(home, stray_name, topic_id, note)
        log.warning("copy without an original is now a stray log", extra={"path": stray.path})
        return stray

    # --- copying --------------------------------------------------------------------------------

    def begin(self, of: Log, home: LogDirectoryLock, topic_id: bytes) -> Log:
        """Creates an empty copy in another directory, which survives a restart."""
        name = directory_names.future(of.name, self._new_id().hex())
        path = f"{home.path}/{name}"
        home.forget(of.name)
        try:
            self._fs.mkdir(path)
        except OSError as error:
            raise home.directory.fault(error, f"copying {of.name}") from error
        try:
            write_topic_id(self._fs, path, topic_id)
        except OSError as error:
            fault = home.directory.fault(error, f"copying {of.name}")
            self._discard_directory(home, name, of.name)
            raise fault from error
        copy = Log(
            home.directory,
            of.topic,
            of.partition,
            topic_id=topic_id,
            config=of.config,
            checkpointed=Checkpointed(clean=True, recovery_point=0, log_start_offset=0),
            new=True,
            directory_name=name,
        )
        self._add_copy(home, copy)
        return copy

    def drop(self, topic: str, partition: int) -> bool:
        """Discards the copy; a later sweep removes its files. Returns whether there was one.

        In a failed directory the copy stays, and grows again when the directory works.
        """
        copy = self.get(topic, partition)
        if copy is None:
            return False
        home = self._remove_copy(copy)
        copy.close(clean=False)
        self._discard_directory(home, copy.path.rpartition("/")[2], copy.name)
        return True

    def _discard_directory(self, home: LogDirectoryLock, name: str, original: str) -> None:
        """Renames the directory at once, so that the next start does not take it for a copy."""
        if not home.is_online:
            return
        target = f"{home.path}/{directory_names.deleted(original, self._new_id().hex())}"
        try:
            self._fs.rename(f"{home.path}/{name}", target)
        except OSError as error:
            fault = home.directory.fault(error, f"removing {name}")
            log.error(
                "could not discard a copy; the next start tries again",
                extra={"path": f"{home.path}/{name}", "error": str(fault)},
            )
            return
        self._trash.add_tree(target)

    # --- taking over ----------------------------------------------------------------------------

    def take_over(self, original: Log, source: LogDirectoryLock) -> tuple[LogDirectoryLock, Log]:
        """Gives the complete copy the original's name in its own directory.

        The order is the guarantee: first the copy is synced, then a note on disk says that the copy
        is current, then it gets the name. The original stays: the caller removes it and then the
        note. On an error the original remains in use.
        """
        home, copy = self._logs[original.topic, original.partition]
        name, end = original.name, copy.log_end_offset
        try:
            copy.delete_before(original.log_start_offset)
            copy.local.epochs.copy_from(original.local.epochs)
            copy.close(clean=True)
            home.checkpoint()
            number = moved_logs.next_number(self._fs, self._homes, name)
            moved_logs.note(self._fs, home.path, name, number)
        except StorageError:
            self.drop(original.topic, original.partition)
            raise
        except OSError as error:
            fault = home.directory.fault(error, f"moving {name}")
            self.drop(original.topic, original.partition)
            raise fault from error
        try:
            self._rename_to_original(home, copy)
        except StorageError:
            if not home.is_online:  # else it was not renamed
                self._keep_original(source, name, number + 1)
            self.drop(original.topic, original.partition)
            raise
        self._remove_copy(copy)
        moved = Log(
            home.directory,
            original.topic,
            original.partition,
            topic_id=original.topic_id,
            config=original.config,
            checkpointed=Checkpointed(
                clean=True, recovery_point=end, log_start_offset=original.log_start_offset
            ),
        )
        return home, moved

    def _rename_to_original(self, home: LogDirectoryLock, copy: Log) -> None:
        try:
            self._fs.rename(copy.path, f"{home.path}/{copy.name}")
        except OSError as error:
            raise home.directory.fault(error, f"moving {copy.name}") from error
        try:
            self._fs.fsync_dir(home.path)
        except OSError as error:
            # After any error it is unknown which of the names is on disk.
            raise home.directory.fail(f"moving {copy.name}: {error}") from error

    def _keep_original(self, source: LogDirectoryLock, name: str, number: int) -> None:
        """Notes on disk that the original is current, as the copy may have its name."""
        try:
            moved_logs.note(self._fs, source.path, name, number)
        except OSError as error:
            # The original must not accept records that a restart would not find.
            source.directory.fail(f"undoing the move of {name}: {error}")


def _same_until(copy: Log, original: Log) -> int:
    """The offset up to which both hold the same records, above the original's recovery point."""
    end = min(copy.log_end_offset, original.log_end_offset)
    offset = max(original.recovery_point, original.log_start_offset, copy.log_start_offset)
    try:
        while offset < end:
            ours = copy.read(offset, max_bytes=PIECE_BYTES).data
            theirs = original.read(offset, max_bytes=PIECE_BYTES).data
            for position, header in headers(ours, partial_tail=True):
                after = position + header.size
                if position and after > len(theirs):
                    break  # the original's segment ends earlier: read on
                if ours[position:after] != theirs[position:after]:
                    return offset
                offset = header.next_offset
    except RecordsDamaged:
        return offset
    return min(offset, original.log_end_offset)


def align(copy: Log, original: Log) -> None:
    """Truncates the copy to the records that both hold."""
    copy.load()
    copy.give_up_damaged()
    end = copy.shared_end(original)
    if end < copy.log_end_offset:
        log.info("truncated a copy", extra={"path": copy.path, "log_end_offset": end})
        copy.truncate_to(end)


def first_kept(original: Log) -> int:
    """The offset at which a copy must begin: a log may start inside a batch."""
    start = original.log_start_offset
    return min(start, original.read(start, max_bytes=1).first_offset)
