"""Checkpoints: small text files that keep offsets over a restart.

A version line, a count line, then one entry on each line. A new version is written to a temporary
file first, so a reader finds the old file or the new one. A damaged file raises
`CorruptCheckpoint`: the caller decides what to assume instead.
"""

from collections.abc import Iterable, Mapping

from headrace.storage.errors import DiskError
from headrace.storage.files.filesystem import FileSystem, read_file, replace_file
from headrace.storage.state.leader_epochs import EpochEntry

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
OFFSET_CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS)

VERSION = 0


class CorruptCheckpoint(DiskError):
    """The file does not match its version and count lines."""


def read_offsets(fs: FileSystem, path: str) -> dict[str, int]:
    """Offsets by directory name (`topic-partition`); empty if there is no file."""
    offsets = {}
    for line in _read_lines(fs, path):
        try:
            topic, partition, offset = line.split(" ")
            offsets[f"{topic}-{int(partition)}"] = int(offset)
        except ValueError:
            raise CorruptCheckpoint(f"{path}: {line!r} is not an entry") from None
    return offsets


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[str, int]) -> None:
    lines = []
    for name, offset in offsets.items():
        topic, _, partition = name.rpartition("-")
        lines.append(f"{topic} {partition} {offset}")
    replace_file(fs, path, _encode(lines))


def read_epochs(fs: FileSystem, path: str) -> list[EpochEntry]:
    """Leader epochs, ascending; empty if there is no file."""
    entries: list[EpochEntry] = []
    for line in _read_lines(fs, path):
        try:
            epoch, start_offset = line.split(" ")
            entry = EpochEntry(int(epoch), int(start_offset))
        except ValueError:
            raise CorruptCheckpoint(f"{path}: {line!r} is not an entry") from None
        if entries and (entry.epoch <= entries[-1].epoch or entry[1] <= entries[-1][1]):
            raise CorruptCheckpoint(f"{path}: {line!r} does not follow {entries[-1]}")
        entries.append(entry)
    return entries


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    return _encode([f"{epoch} {start}" for epoch, start in entries])


def _encode(lines: list[str]) -> bytes:
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode()


def _read_lines(fs: FileSystem, path: str) -> list[str]:
    try:
        text = read_file(fs, path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise CorruptCheckpoint(f"{path} is not text") from None
    if not text:
        return []  # created, but never written
    version, _, rest = text.partition("\n")
    count, _, rest = rest.partition("\n")
    lines = rest.splitlines()
    if version != str(VERSION) or count != str(len(lines)):
        raise CorruptCheckpoint(
            f"{path}: version {version!r} with {len(lines)} entries instead of {count!r}"
        )
    return lines
