"""Which of two directories has the current log of a partition, if a crash leaves it in both.

A copy gets the partition's name before the original loses it, so that a partition is never without
a log. In between, both have the name. Before it is renamed, the copy's directory gets a note on
disk with a number that is higher than any before: the highest number is current. The note is
removed after the original.

The file has the form of a checkpoint. Apache Kafka does not read it: it leaves such a case to the
operator, as this broker does if there is no note.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from headrace.storage.directories import directory_names
from headrace.storage.directories.log_directory_lock import LogDirectoryLock
from headrace.storage.errors import DiskError, StorageError
from headrace.storage.files.delayed_delete import DelayedDelete
from headrace.storage.files.filesystem import FileSystem, remove_if_there
from headrace.storage.log.log import Log
from headrace.storage.state.checkpoints import CorruptCheckpoint, read_offsets, write_offsets

log = logging.getLogger(__name__)

MOVED_LOGS = "headrace-moved-logs"


def owner_of(numbers: Mapping[str, int]) -> str | None:
    """The directory with the highest number; None if there is no note, or a tie."""
    highest = max(numbers.values(), default=0)
    owners = [path for path, number in numbers.items() if number == highest]
    return owners[0] if highest and len(owners) == 1 else None


def next_number(fs: FileSystem, homes: Iterable[LogDirectoryLock], name: str) -> int:
    """A number that is higher than those in any directory's note of this partition."""
    return 1 + max(_read(fs, home.path).get(name, 0) for home in homes if home.is_online)


def note(fs: FileSystem, path: str, name: str, number: int) -> None:
    """Notes, durably, that the log in `path` is current if another directory has one, too."""
    write_offsets(fs, f"{path}/{MOVED_LOGS}", _read(fs, path) | {name: number})


def forget(fs: FileSystem, path: str, name: str) -> None:
    """Removes the note: no other directory has the partition any more."""
    left = {each: number for each, number in _read(fs, path).items() if each != name}
    if left:
        write_offsets(fs, f"{path}/{MOVED_LOGS}", left)
    else:
        remove_if_there(fs, f"{path}/{MOVED_LOGS}")


def forget_all(fs: FileSystem, homes: Sequence[LogDirectoryLock]) -> None:
    """Removes all notes: no partition is in two directories."""
    for home in homes:
        try:
            remove_if_there(fs, f"{home.path}/{MOVED_LOGS}")
        except OSError as error:
            home.directory.fault(error, f"opening {home.path}")


def take_superseded(
    fs: FileSystem, homes: Sequence[LogDirectoryLock]
) -> list[tuple[LogDirectoryLock, str]]:
    """Leaves each partition in one directory's list; returns the others, with their directories.

    Raises if a partition is in two directories and no note says which one is current.
    """
    holders: dict[str, list[LogDirectoryLock]] = {}
    for home in homes:
        for topic, partition in home.partitions if home.is_online else ():
            holders.setdefault(f"{topic}-{partition}", []).append(home)
    superseded = []
    for name, those in holders.items():
        if len(those) == 1:
            continue
        owner = owner_of({home.path: _read(fs, home.path).get(name, 0) for home in those})
        if owner is None:
            raise twice(name, those[0].path, those[1].path)
        for home in those:
            if home.path != owner:
                home.partitions = [
                    each for each in home.partitions if "-".join(map(str, each)) != name
                ]
                superseded.append((home, name))
    return superseded


def remove_superseded(
    fs: FileSystem,
    homes: Sequence[LogDirectoryLock],
    superseded: list[tuple[LogDirectoryLock, str]],
    logs: Mapping[tuple[str, int], Log],
    trash: DelayedDelete,
    new_id: Callable[[], bytes],
) -> None:
    """Finishes moves that a crash interrupted: removes the originals whose copies took over."""
    for home, name in superseded:
        owner = next(each for each in logs.values() if each.name == name)
        try:
            owner.load()
        except StorageError as error:
            # The other directory may hold the only readable records: an operator must decide.
            raise twice(name, home.path, owner.directory.path) from error
        target = f"{home.path}/{directory_names.deleted(name, new_id().hex())}"
        try:
            fs.rename(f"{home.path}/{name}", target)
            fs.fsync_dir(home.path)
        except OSError as error:
            home.directory.fault(error, f"removing {name}")
            continue
        trash.add_tree(target)
        log.warning("finished an interrupted move", extra={"log": name, "to": owner.directory.path})
    if all(home.is_online for home in homes):
        forget_all(fs, homes)


def settle(
    fs: FileSystem,
    homes: Sequence[LogDirectoryLock],
    source: LogDirectoryLock,
    home: LogDirectoryLock,
    name: str,
) -> None:
    """Removes the note of a move after the removal of the original's name is durable.

    While a directory is offline the note stays: an earlier move may have left the name there.
    """
    try:
        fs.fsync_dir(source.path)
    except OSError as error:
        raise source.directory.fault(error, f"moving {name}") from error
    if not all(each.is_online for each in homes):
        return
    try:
        forget(fs, home.path, name)
    except OSError as error:
        raise home.directory.fault(error, f"moving {name}") from error


def twice(name: str, first: str, second: str) -> DiskError:
    return DiskError(
        f"{name} is in {first} and in {second}, and no note says which one is current: "
        "move one of them to another place"
    )


def _read(fs: FileSystem, path: str) -> dict[str, int]:
    try:
        return read_offsets(fs, f"{path}/{MOVED_LOGS}")
    except CorruptCheckpoint as error:
        log.warning("ignoring a damaged list of moves", extra={"reason": str(error)})
        return {}
