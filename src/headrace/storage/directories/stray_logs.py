"""Logs that are set aside: the cluster does not know them, and perhaps it should.

As Apache Kafka does, the directory is renamed to `<topic>-<partition>.<id>-stray` and is not loaded
any more. A note in it, `stray.metadata`, says since when, and what the checkpoints said of the log:
so it can take its place again if its topic id becomes known, and go when its time is over. Strays
without a note are Apache Kafka's or a person's: they are left alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.storage.directories import directory_names
from headrace.storage.directories.directory_names import STRAY_SUFFIX, PartitionName
from headrace.storage.directories.log_directory_lock import LogDirectoryLock
from headrace.storage.files.filesystem import FileSystem, read_file, replace_file
from headrace.storage.state.partition_metadata import read_topic_id

STRAY_METADATA = "stray.metadata"
VERSION = 0
FOREVER_MS = -1


@dataclass(frozen=True, slots=True)
class StrayNote:
    """What is known of a log when it is set aside; the name, because a directory's may be cut."""

    name: str
    set_aside_ms: int
    recovery_point: int
    log_start_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True, eq=False)
class StrayLog:
    """One log that is set aside; without a topic id nothing can tell whose it is."""

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
        """When it may be removed; None for never."""
        return None if retention_ms == FOREVER_MS else self.note.set_aside_ms + retention_ms


class StrayLogs:
    """The logs of one broker that are set aside."""

    __slots__ = ("_logs",)

    def __init__(self) -> None:
        self._logs: list[StrayLog] = []

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[StrayLog]:
        return iter(list(self._logs))

    def add(self, stray: StrayLog) -> None:
        self._logs.append(stray)

    def remove(self, stray: StrayLog) -> None:
        self._logs.remove(stray)

    def find(self, topic: str, partition: int, topic_id: bytes) -> StrayLog | None:
        """The one that belongs to this partition of this very topic; the last one set aside."""
        wanted = PartitionName(topic, partition)
        found = [
            each
            for each in self._logs
            if each.topic_id == topic_id and each.partition == wanted and each.home.is_online
        ]
        return max(found, key=lambda each: each.note.set_aside_ms, default=None)

    def take_in(self, fs: FileSystem, home: LogDirectoryLock) -> None:
        """Finds what was set aside in this directory earlier."""
        for name in list(home.strays):
            path = f"{home.path}/{name}"
            note = read_note(fs, path) if name.endswith(STRAY_SUFFIX) else None
            if note is not None:
                home.strays.remove(name)
                self.add(StrayLog(home, name, read_topic_id(fs, path), note))


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
    """None if there is none, or none that can be read."""
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
    except (FileNotFoundError, KeyError, ValueError):  # the last one: also bytes that are no text
        return None
