"""Which of two directories has the current log of a partition, if a crash leaves it in both.

A copy gets the partition's name before the original loses it, so that a partition is never without
a log. In between, both have the name. Before it is renamed, the copy's directory gets a note on
disk with a number that is higher than any before: the highest number is current. The note is
removed after the original.

The file has the form of a checkpoint. Apache Kafka does not read it: there the operator must
resolve such a case, as here if there is no note.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from headrace.storage.directories.log_directory import LogDirectory
from headrace.storage.errors import DiskError, StorageError
from headrace.storage.files.filesystem import FileSystem, remove_if_exists
from headrace.storage.log.log import Log
from headrace.storage.state.checkpoint_file import CorruptCheckpoint, read_offsets, write_offsets

log = logging.getLogger(__package__)

MOVED_LOGS = "headrace-moved-logs"


def current_directory(numbers: Mapping[str, int]) -> str | None:
    """The directory with the highest number; None if there is no note, or a tie."""
    highest = max(numbers.values(), default=0)
    owners = [path for path, number in numbers.items() if number == highest]
    return owners[0] if highest and len(owners) == 1 else None


def next_number(fs: FileSystem, directories: Iterable[LogDirectory], name: str) -> int:
    """A number that is higher than those in any directory's note of this partition."""
    online = (each for each in directories if each.is_online)
    return 1 + max(_read_notes(fs, each.path).get(name, 0) for each in online)


def write_note(fs: FileSystem, path: str, name: str, number: int) -> None:
    """Notes, durably, that the log in `path` is current if another directory has one, too."""
    write_offsets(fs, f"{path}/{MOVED_LOGS}", _read_notes(fs, path) | {name: number})


def remove_note(fs: FileSystem, path: str, name: str) -> None:
    """Removes the note: no other directory has the partition any more."""
    left = {each: number for each, number in _read_notes(fs, path).items() if each != name}
    if left:
        write_offsets(fs, f"{path}/{MOVED_LOGS}", left)
    else:
        remove_if_exists(fs, f"{path}/{MOVED_LOGS}")


def remove_all_notes(fs: FileSystem, directories: Sequence[LogDirectory]) -> None:
    """Removes all notes: no partition is in two directories."""
    for directory in directories:
        try:
            remove_if_exists(fs, f"{directory.path}/{MOVED_LOGS}")
        except OSError as error:
            directory.state.fault(error, f"opening {directory.path}")


def exclude_superseded(
    fs: FileSystem, directories: Sequence[LogDirectory]
) -> list[tuple[LogDirectory, str]]:
    """Leaves each partition in one directory's list; returns the others, with their directories.

    Raises if a partition is in two directories and no note says which one is current.
    """
    directories_by_name: dict[str, list[LogDirectory]] = {}
    for directory in directories:
        for topic, partition in directory.partitions if directory.is_online else ():
            directories_by_name.setdefault(f"{topic}-{partition}", []).append(directory)
    superseded = []
    for name, found_in in directories_by_name.items():
        if len(found_in) == 1:
            continue
        owner = current_directory(
            {each.path: _read_notes(fs, each.path).get(name, 0) for each in found_in}
        )
        if owner is None:
            raise duplicate_partition_error(name, found_in[0].path, found_in[1].path)
        for directory in found_in:
            if directory.path != owner:
                directory.partitions = [
                    each for each in directory.partitions if "-".join(map(str, each)) != name
                ]
                superseded.append((directory, name))
    return superseded


def remove_superseded(
    fs: FileSystem,
    directories: Sequence[LogDirectory],
    superseded: list[tuple[LogDirectory, str]],
    logs: Mapping[tuple[str, int], Log],
    new_id: Callable[[], bytes],
) -> None:
    """Finishes moves that a crash interrupted: removes the originals that their copies have
    replaced."""
    for directory, name in superseded:
        owner = next(each for each in logs.values() if each.name == name)
        try:
            owner.load()
        except StorageError as error:
            # The other directory may hold the only readable records: an operator must decide.
            raise duplicate_partition_error(name, directory.path, owner.directory.path) from error
        try:
            directory.delete_later(name, name, new_id().hex(), sync=True)
        except OSError as error:
            directory.state.fault(error, f"removing {name}")
            continue
        log.warning("finished an interrupted move", extra={"log": name, "to": owner.directory.path})
    if all(each.is_online for each in directories):
        remove_all_notes(fs, directories)


def remove_note_after_move(
    fs: FileSystem,
    directories: Sequence[LogDirectory],
    source: LogDirectory,
    directory: LogDirectory,
    name: str,
) -> None:
    """Removes the note of a move after the removal of the original's name is durable.

    While a directory is offline the note stays: an earlier move may have left the name there.
    """
    try:
        fs.fsync_dir(source.path)
    except OSError as error:
        raise source.state.fault(error, f"moving {name}") from error
    if not all(each.is_online for each in directories):
        return
    try:
        remove_note(fs, directory.path, name)
    except OSError as error:
        raise directory.state.fault(error, f"moving {name}") from error


def duplicate_partition_error(name: str, first: str, second: str) -> DiskError:
    return DiskError(
        f"{name} is in {first} and in {second}, and no note says which one is current: "
        "move one of them out of the log directory"
    )


def _read_notes(fs: FileSystem, path: str) -> dict[str, int]:
    try:
        return read_offsets(fs, f"{path}/{MOVED_LOGS}")
    except CorruptCheckpoint as error:
        log.warning("ignoring a damaged list of moved logs", extra={"reason": str(error)})
        return {}
