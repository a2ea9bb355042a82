"""Stray logs: logs of partitions that the cluster's metadata does not place on this broker.

As in Apache Kafka, the directory is renamed to `<topic>-<partition>.<id>-stray` and is not loaded.
The file `stray.metadata` in it holds the time of the rename and the log's checkpoints. With them
the log is restored if its topic id becomes known, or deleted after the retention time. Stray
directories without this file were made by Apache Kafka or by hand: they are left alone.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from headrace.storage.directories import directory_names
from headrace.storage.directories.directory_names import STRAY_SUFFIX, PartitionName
from headrace.storage.directories.log_directory_lock import LogDirectoryLock
from headrace.storage.errors import StorageError
from headrace.storage.files.delayed_delete import DelayedDelete
from headrace.storage.files.filesystem import FileSystem, read_file, remove_if_there, replace_file
from headrace.storage.log.log import Log
from headrace.storage.recovery.log_loader import Checkpointed
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.partition_metadata import read_topic_id

log = logging.getLogger(__name__)

NO_TOPIC_ID = bytes(16)

STRAY_METADATA = "stray.metadata"
VERSION = 0
FOREVER_MS = -1


@dataclass(frozen=True, slots=True)
class StrayNote:
    """The state of a log when it became stray; with its name, as a directory's may be cut off."""

    name: str
    set_aside_ms: int
    recovery_point: int
    log_start_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True, eq=False)
class StrayLog:
    """One stray log; without a topic id its topic is unknown."""

    home: LogDirectoryLock
    directory_name: str
    topic_id: bytes | None
    note: StrayNote

    @property
    def path(self) -> str:
        return f"{self.home.path}/{self.directory_name}"

    @property
    def partition(self) -> PartitionName:
        found = directory_names.parse(self.note.name)
        assert found is not None  # `read_note` has checked it
        return found

    def due_ms(self, retention_ms: int) -> int | None:
        """The time at which it may be deleted; None for never."""
        return None if retention_ms == FOREVER_MS else self.note.set_aside_ms + retention_ms


class StrayLogs:
    """The stray logs of one broker."""

    __slots__ = ("_fs", "_logs", "_new_id", "_trash")

    def __init__(self, fs: FileSystem, trash: DelayedDelete, new_id: Callable[[], bytes]) -> None:
        self._fs = fs
        self._trash = trash
        self._new_id = new_id
        self._logs: list[StrayLog] = []

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[StrayLog]:
        return iter(list(self._logs))

    def add(self, stray: StrayLog) -> None:
        self._logs.append(stray)

    def find(self, topic: str, partition: int, topic_id: bytes) -> StrayLog | None:
        """The latest stray log of this partition of the topic with this id."""
        wanted = PartitionName(topic, partition)
        found = [
            each
            for each in self._logs
            if each.topic_id == topic_id and each.partition == wanted and each.home.is_online
        ]
        return max(found, key=lambda each: each.note.set_aside_ms, default=None)

    def find_in(self, home: LogDirectoryLock) -> None:
        """Adds the stray logs that are in this directory at start."""
        for name in list(home.strays):
            path = f"{home.path}/{name}"
            note = read_note(self._fs, path) if name.endswith(STRAY_SUFFIX) else None
            if note is not None:
                home.strays.remove(name)
                self.add(StrayLog(home, name, read_topic_id(self._fs, path), note))

    def make_stray(self, unknown: Log, home: LogDirectoryLock, now_ms: int) -> StrayLog:
        """Closes the log and renames its directory."""
        with suppress(StorageError):  # a damaged log is kept as it is
            unknown.close(clean=True)
        note = StrayNote(
            unknown.name,
            now_ms,
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
            raise home.directory.fault(error, f"making {unknown.name} a stray log") from error
        topic_id = None if unknown.topic_id == NO_TOPIC_ID else unknown.topic_id
        stray = StrayLog(home, name, topic_id, note)
        self.add(stray)
        return stray

    def restore(self, stray: StrayLog, config: LogConfig) -> Log:
        """Renames the directory back; the log is recovered when it is opened."""
        home, note = stray.home, stray.note
        home.forget(note.name)
        path = f"{home.path}/{note.name}"
        try:
            self._fs.rename(stray.path, path)
            self._fs.fsync_dir(home.path)
            remove_if_there(self._fs, f"{path}/{STRAY_METADATA}")
        except OSError as error:
            raise home.directory.fault(error, f"restoring {note.name}") from error
        self._logs.remove(stray)
        home.high_watermarks[note.name] = note.high_watermark
        topic, partition = stray.partition
        return Log(
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

    def expire(self, retention_ms: int, now_ms: int) -> int:
        """Renames what is older than `retention_ms` for a later sweep; returns how many."""
        expired = 0
        for stray in self:
            due_ms = stray.due_ms(retention_ms)
            if due_ms is None or due_ms > now_ms or not stray.home.is_online:
                continue
            name = directory_names.deleted(stray.note.name, self._new_id().hex())
            target = f"{stray.home.path}/{name}"
            try:
                self._fs.rename(stray.path, target)
            except FileNotFoundError:
                pass  # removed by hand
            except OSError as error:
                raise stray.home.directory.fault(error, f"deleting {stray.path}") from error
            else:
                self._trash.add_tree(target)
                log.warning("deleted an expired stray log", extra={"path": stray.path})
            self._logs.remove(stray)
            expired += 1
        return expired


def write_note(fs: FileSystem, directory: str, note: StrayNote) -> None:
    lines = [
        f"version: {VERSION}",
        f"name: {note.name}",
        f"set_aside_ms: {note.set_aside_ms}",
        f"recovery_point: {note.recovery_point}",
        f"log_start_offset: {note.log_start_offset}",
        f"high_watermark: {note.high_watermark}",
    ]
    replace_file(fs, f"{directory}/{STRAY_METADATA}", "\n".join(lines).encode())


def read_note(fs: FileSystem, directory: str) -> StrayNote | None:
    """None if the file is missing or unreadable."""
    try:
        text = read_file(fs, f"{directory}/{STRAY_METADATA}").decode()
        fields = dict(line.split(": ", 1) for line in text.splitlines())
        if directory_names.parse(fields["name"]) is None:
            return None
        return StrayNote(
            fields["name"],
            int(fields["set_aside_ms"]),
            int(fields["recovery_point"]),
            int(fields["log_start_offset"]),
            int(fields["high_watermark"]),
        )
    except (FileNotFoundError, KeyError, ValueError):  # ValueError: also invalid UTF-8
        return None
