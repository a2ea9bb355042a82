"""Future logs: copies that grow in another log directory, to replace their originals.

As in Apache Kafka, a copy is in `<topic>-<partition>.<id>-future` and survives a restart. It is a
prefix of the original, or is truncated to one: by leader epochs, and after a crash by comparing the
records that the original may have lost. While the original exists, the copy can be replaced: it is
truncated at damage, and later records are copied again. A copy without an original may have the
partition's only records. It becomes a stray log, which is restored if the partition needs a log.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from headrace.records.batch_header import headers
from headrace.storage.directories import directory_names, moved_logs
from headrace.storage.directories.log_directory import LogDirectory
from headrace.storage.directories.stray_logs import (
    StrayLog,
    StrayLogs,
    StrayMetadata,
    write_stray_metadata,
)
from headrace.storage.errors import RecordsDamaged, StorageError
from headrace.storage.files.filesystem import FileSystem
from headrace.storage.log.log import Log
from headrace.storage.recovery.log_loader import Checkpointed
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.partition_metadata import read_topic_id, write_topic_id

log = logging.getLogger(__package__)

PIECE_BYTES: Final = 1024 * 1024  # compared in one step

Key = tuple[str, int]


class FutureLogs:
    """The copies of one broker, at most one of each partition."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        fs: FileSystem,
        new_id: Callable[[], bytes],
    ) -> None:
        self._directories = directories
        self._fs = fs
        self._new_id = new_id
        self._logs: dict[Key, tuple[LogDirectory, Log]] = {}

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter([copy for _, copy in self._logs.values()])

    def get(self, topic: str, partition: int) -> Log | None:
        found = self._logs.get((topic, partition))
        return None if found is None else found[1]

    def _add_copy(self, directory: LogDirectory, copy: Log) -> None:
        self._logs[copy.topic, copy.partition] = directory, copy
        directory.futures[copy.name] = copy

    def _remove_copy(self, copy: Log) -> LogDirectory:
        directory, _ = self._logs.pop((copy.topic, copy.partition))
        del directory.futures[copy.name]
        return directory

    # --- after a start --------------------------------------------------------------------------

    def find_copies(
        self,
        originals: Mapping[Key, Log],
        config_of: Callable[[str], LogConfig],
        stray_logs: StrayLogs,
        now_ms: int,
    ) -> None:
        """Opens the copies of earlier runs, and discards those that cannot be used.

        Call this after the originals are known. While a directory is offline, a missing original
        may be in it: its copy is kept unchanged.
        """
        is_complete = all(each.is_online for each in self._directories)
        for directory in self._directories:
            for name in directory.found_futures if directory.is_online else ():
                partition = directory_names.original_of(name)
                assert partition is not None
                try:
                    topic_id = read_topic_id(self._fs, f"{directory.path}/{name}")
                    original = originals.get(partition)
                    if original is not None:
                        self._open_copy(
                            directory, name, topic_id, original, config_of(partition.topic)
                        )
                    elif topic_id is None or not is_complete:
                        directory.unknown_directories.append(name)
                        log.warning(
                            "ignoring a copy whose original was not found; its files are kept",
                            extra={"path": f"{directory.path}/{name}"},
                        )
                    else:
                        stray_logs.add(self._make_stray(directory, name, topic_id, now_ms))
                except OSError as error:
                    directory.state.fault(error, f"opening {directory.path}/{name}")
                    break

    def _open_copy(
        self,
        directory: LogDirectory,
        name: str,
        topic_id: bytes | None,
        original: Log,
        config: LogConfig,
    ) -> None:
        is_of_topic = topic_id is not None and original.topic_id in (topic_id, bytes(16))
        if not is_of_topic or original.directory is directory.state:
            self._discard_directory(directory, name, original.name)
            return
        if (original.topic, original.partition) in self._logs:
            # Another directory has a copy, too.
            self._discard_directory(directory, name, original.name)
            return
        assert topic_id is not None
        clean = directory.was_clean and original.name in directory.checkpoints.recovery_points
        copy = Log(
            directory.state,
            original.topic,
            original.partition,
            topic_id=topic_id,
            config=config,
            checkpointed=directory.checkpoints.of_log(original.name, clean=clean, expendable=True),
            directory_name=name,
        )
        self._add_copy(directory, copy)
        try:
            if not clean:
                copy.load()
            if original.failure is None:
                # Before the original is written to: records that it lost in a power failure may be
                # replaced by other records of the same epoch.
                copy.truncate_to(_end_of_shared_records(copy, original))
        except StorageError as error:
            log.warning(
                "could not open a copy; it is copied again",
                extra={"path": copy.path, "reason": str(error)},
            )

    def _make_stray(
        self, directory: LogDirectory, name: str, topic_id: bytes, now_ms: int
    ) -> StrayLog:
        """Makes a copy a stray log. Its checkpoints are not used: if it is restored, recovery scans
        it all."""
        partition = directory_names.original_of(name)
        assert partition is not None
        original = f"{partition.topic}-{partition.partition}"
        start = directory.checkpoints.log_starts.get(original, 0)
        metadata = StrayMetadata(original, now_ms, 0, start, start)
        stray_name = directory_names.stray(original, self._new_id().hex())
        write_stray_metadata(self._fs, f"{directory.path}/{name}", metadata)
        self._fs.rename(f"{directory.path}/{name}", f"{directory.path}/{stray_name}")
        self._fs.fsync_dir(directory.path)
        stray = StrayLog(directory, stray_name, topic_id, metadata)
        log.warning("copy without an original is now a stray log", extra={"path": stray.path})
        return stray

    # --- copying --------------------------------------------------------------------------------

    def create_copy(self, original: Log, directory: LogDirectory, topic_id: bytes) -> Log:
        """Creates an empty copy in another directory, which survives a restart."""
        name = directory_names.future(original.name, self._new_id().hex())
        path = f"{directory.path}/{name}"
        directory.forget(original.name)
        try:
            self._fs.mkdir(path)
        except OSError as error:
            raise directory.state.fault(error, f"copying {original.name}") from error
        try:
            write_topic_id(self._fs, path, topic_id)
        except OSError as error:
            fault = directory.state.fault(error, f"copying {original.name}")
            self._discard_directory(directory, name, original.name)
            raise fault from error
        copy = Log(
            directory.state,
            original.topic,
            original.partition,
            topic_id=topic_id,
            config=original.config,
            checkpointed=Checkpointed(clean=True, recovery_point=0, log_start_offset=0),
            new=True,
            directory_name=name,
        )
        self._add_copy(directory, copy)
        return copy

    def drop(self, topic: str, partition: int) -> bool:
        """Discards the copy; a later sweep removes its files. Returns whether there was one.

        In a failed directory the copy stays; copying continues when the directory is online again.
        """
        copy = self.get(topic, partition)
        if copy is None:
            return False
        directory = self._remove_copy(copy)
        copy.close(clean=False)
        self._discard_directory(directory, copy.path.rpartition("/")[2], copy.name)
        return True

    def _discard_directory(self, directory: LogDirectory, name: str, original: str) -> None:
        """Renames the directory at once, so that the next start does not find a copy there."""
        if not directory.is_online:
            return
        try:
            directory.delete_later(name, original, self._new_id().hex())
        except OSError as error:
            fault = directory.state.fault(error, f"removing {name}")
            log.error(
                "could not discard a copy; the next start tries again",
                extra={"path": f"{directory.path}/{name}", "error": str(fault)},
            )

    # --- promotion ------------------------------------------------------------------------------

    def promote_copy(self, original: Log, source: LogDirectory) -> tuple[LogDirectory, Log]:
        """Gives the complete copy the original's name in its own directory.

        The order is the guarantee: first the copy is synced, then a note on disk says that the copy
        is current, then it gets the name. The original stays: the caller removes it and then the
        metadata. On an error the original remains in use.
        """
        directory, copy = self._logs[original.topic, original.partition]
        name, end = original.name, copy.log_end_offset
        try:
            copy.delete_before(original.log_start_offset)
            copy.local.epochs.copy_from(original.local.epochs)
            copy.close(clean=True)
            directory.checkpoint()
            number = moved_logs.next_number(self._fs, self._directories, name)
            moved_logs.write_note(self._fs, directory.path, name, number)
        except StorageError:
            self.drop(original.topic, original.partition)
            raise
        except OSError as error:
            fault = directory.state.fault(error, f"moving {name}")
            self.drop(original.topic, original.partition)
            raise fault from error
        try:
            self._rename_to_original(directory, copy)
        except StorageError:
            if not directory.is_online:  # otherwise it was not renamed
                self._mark_original_current(source, name, number + 1)
            self.drop(original.topic, original.partition)
            raise
        self._remove_copy(copy)
        moved = Log(
            directory.state,
            original.topic,
            original.partition,
            topic_id=original.topic_id,
            config=original.config,
            checkpointed=Checkpointed(
                clean=True, recovery_point=end, log_start_offset=original.log_start_offset
            ),
        )
        return directory, moved

    def _rename_to_original(self, directory: LogDirectory, copy: Log) -> None:
        try:
            self._fs.rename(copy.path, f"{directory.path}/{copy.name}")
        except OSError as error:
            raise directory.state.fault(error, f"moving {copy.name}") from error
        try:
            self._fs.fsync_dir(directory.path)
        except OSError as error:
            # After any error it is unknown which of the names is on disk.
            raise directory.state.fail(f"moving {copy.name}: {error}") from error

    def _mark_original_current(self, source: LogDirectory, name: str, number: int) -> None:
        """Notes on disk that the original is current, as the copy may have its name."""
        try:
            moved_logs.write_note(self._fs, source.path, name, number)
        except OSError as error:
            # The original must not accept records that a restart would not find.
            source.state.fail(f"undoing the move of {name}: {error}")


def _end_of_shared_records(copy: Log, original: Log) -> int:
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


def truncate_copy(copy: Log, original: Log) -> None:
    """Truncates the copy to the records that both hold."""
    copy.load()
    copy.truncate_damaged()
    end = copy.shared_end(original)
    if end < copy.log_end_offset:
        log.info("truncated a copy", extra={"path": copy.path, "log_end_offset": end})
        copy.truncate_to(end)


def copy_start_offset(original: Log) -> int:
    """The offset at which a copy must begin: a log may start inside a batch."""
    start = original.log_start_offset
    return min(start, original.read(start, max_bytes=1).first_offset)
