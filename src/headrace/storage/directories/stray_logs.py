"""Stray logs: logs of partitions that the cluster's metadata does not place on this broker.

As in Apache Kafka, the directory is renamed to `<topic>-<partition>.<id>-stray` and is not loaded.
The file `stray.metadata` in it holds the time of the rename and the log's checkpoints. They are
used to restore the log if its topic id becomes known; otherwise the log is deleted after the
retention time. Stray directories without this file were made by Apache Kafka or by hand: they are
never changed.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from headrace.storage.directories import directory_names
from headrace.storage.directories.directory_names import STRAY_SUFFIX, PartitionName
from headrace.storage.directories.log_directory import LogDirectory
from headrace.storage.errors import StorageError
from headrace.storage.files.filesystem import FileSystem, read_file, remove_if_exists, replace_file
from headrace.storage.log.log import Log
from headrace.storage.recovery.log_loader import Checkpointed
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.partition_metadata import read_topic_id

log = logging.getLogger(__package__)

NO_TOPIC_ID = bytes(16)

STRAY_METADATA = "stray.metadata"
VERSION = 0
FOREVER_MS = -1


class StrayMetadata(NamedTuple):
    """The state of a log when it became stray; has the full name, which a directory's may
    shorten."""

    name: str
    stray_since_ms: int
    recovery_point: int
    log_start_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True, eq=False)
class StrayLog:
    """One stray log; without a topic id its topic is unknown."""

    directory: LogDirectory
    directory_name: str
    topic_id: bytes | None
    metadata: StrayMetadata

    @property
    def path(self) -> str:
        return f"{self.directory.path}/{self.directory_name}"

    @property
    def partition(self) -> PartitionName:
        found = directory_names.parse(self.metadata.name)
        assert found is not None  # `read_stray_metadata` has checked it
        return found

    def due_ms(self, retention_ms: int) -> int | None:
        """The time at which it may be deleted; None for never."""
        return None if retention_ms == FOREVER_MS else self.metadata.stray_since_ms + retention_ms


class StrayLogs:
    """The stray logs of one broker."""

    __slots__ = ("_fs", "_logs", "_new_id")

    def __init__(self, fs: FileSystem, new_id: Callable[[], bytes]) -> None:
        self._fs = fs
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
            if each.topic_id == topic_id and each.partition == wanted and each.directory.is_online
        ]
        return max(found, key=lambda each: each.metadata.stray_since_ms, default=None)

    def find_strays(self, directory: LogDirectory) -> None:
        """Adds the stray logs that are in this directory at start."""
        for name in list(directory.unknown_directories):
            path = f"{directory.path}/{name}"
            metadata = read_stray_metadata(self._fs, path) if name.endswith(STRAY_SUFFIX) else None
            if metadata is not None:
                directory.unknown_directories.remove(name)
                self.add(StrayLog(directory, name, read_topic_id(self._fs, path), metadata))

    def make_stray(self, unknown: Log, directory: LogDirectory, now_ms: int) -> StrayLog:
        """Closes the log and renames its directory."""
        with suppress(StorageError):  # a damaged log is kept unchanged
            unknown.close(clean=True)
        metadata = StrayMetadata(
            unknown.name,
            now_ms,
            unknown.recovery_point,
            unknown.log_start_offset,
            directory.checkpoints.high_watermarks.get(unknown.name, unknown.log_start_offset),
        )
        name = directory_names.stray(unknown.name, self._new_id().hex())
        try:
            write_stray_metadata(self._fs, unknown.path, metadata)
            self._fs.rename(unknown.path, f"{directory.path}/{name}")
            self._fs.fsync_dir(directory.path)
        except OSError as error:
            raise directory.state.fault(error, f"making {unknown.name} a stray log") from error
        topic_id = None if unknown.topic_id == NO_TOPIC_ID else unknown.topic_id
        stray = StrayLog(directory, name, topic_id, metadata)
        self.add(stray)
        return stray

    def restore(self, stray: StrayLog, config: LogConfig) -> Log:
        """Renames the directory back; the log is recovered when it is opened."""
        directory, metadata = stray.directory, stray.metadata
        directory.forget(metadata.name)
        path = f"{directory.path}/{metadata.name}"
        try:
            self._fs.rename(stray.path, path)
            self._fs.fsync_dir(directory.path)
            remove_if_exists(self._fs, f"{path}/{STRAY_METADATA}")
        except OSError as error:
            raise directory.state.fault(error, f"restoring {metadata.name}") from error
        self._logs.remove(stray)
        directory.checkpoints.high_watermarks[metadata.name] = metadata.high_watermark
        topic, partition = stray.partition
        return Log(
            directory.state,
            topic,
            partition,
            topic_id=stray.topic_id or NO_TOPIC_ID,
            config=config,
            checkpointed=Checkpointed(
                clean=False,
                recovery_point=metadata.recovery_point,
                log_start_offset=metadata.log_start_offset,
            ),
        )

    def expire(self, retention_ms: int, now_ms: int) -> int:
        """Renames stray logs older than `retention_ms` for a later sweep; returns how many."""
        expired = 0
        for stray in self:
            due_ms = stray.due_ms(retention_ms)
            if due_ms is None or due_ms > now_ms or not stray.directory.is_online:
                continue
            unique = self._new_id().hex()
            try:
                stray.directory.delete_later(stray.directory_name, stray.metadata.name, unique)
            except FileNotFoundError:
                pass  # removed by hand
            except OSError as error:
                raise stray.directory.state.fault(error, f"deleting {stray.path}") from error
            else:
                log.warning("deleted an expired stray log", extra={"path": stray.path})
            self._logs.remove(stray)
            expired += 1
        return expired


def write_stray_metadata(fs: FileSystem, directory: str, metadata: StrayMetadata) -> None:
    lines = [
        f"version: {VERSION}",
        f"name: {metadata.name}",
        f"set_aside_ms: {metadata.stray_since_ms}",
        f"recovery_point: {metadata.recovery_point}",
        f"log_start_offset: {metadata.log_start_offset}",
        f"high_watermark: {metadata.high_watermark}",
    ]
    replace_file(fs, f"{directory}/{STRAY_METADATA}", "\n".join(lines).encode())


def read_stray_metadata(fs: FileSystem, directory: str) -> StrayMetadata | None:
    """The contents of the file; None if it is missing or unreadable."""
    try:
        text = read_file(fs, f"{directory}/{STRAY_METADATA}").decode()
        fields = dict(line.split(": ", 1) for line in text.splitlines())
        if directory_names.parse(fields["name"]) is None:
            return None
        return StrayMetadata(
            fields["name"],
            int(fields["set_aside_ms"]),
            int(fields["recovery_point"]),
            int(fields["log_start_offset"]),
            int(fields["high_watermark"]),
        )
    except (FileNotFoundError, KeyError, ValueError):  # ValueError: also invalid UTF-8
        return None
