"""Which of two directories has a partition, if a crash leaves it in both.

A copy takes the original's name before the original loses it: so a partition is never without a
log. In between both have it. Who takes a name notes that first, on disk, in its own directory, with
a number that is higher than any before: the highest has the partition. The note goes when the
original is gone.

The file has the form of a checkpoint. Apache Kafka does not look at it: it leaves such a case to
a person, as this broker does where nothing is noted.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from headrace.storage.directories.log_directory_lock import LogDirectoryLock
from headrace.storage.errors import DiskError
from headrace.storage.files.filesystem import FileSystem, remove_if_there
from headrace.storage.state.checkpoints import CorruptCheckpoint, read_offsets, write_offsets

log = logging.getLogger(__name__)

MOVED_LOGS = "headrace-moved-logs"


def owner_of(numbers: Mapping[str, int]) -> str | None:
    """The directory that has the partition, by what each has noted; None if nobody can tell."""
    highest = max(numbers.values(), default=0)
    owners = [path for path, number in numbers.items() if number == highest]
    return owners[0] if highest and len(owners) == 1 else None


def next_number(fs: FileSystem, homes: Iterable[LogDirectoryLock], name: str) -> int:
    """One that is higher than what any directory has noted of this partition."""
    return 1 + max(_read(fs, home.path).get(name, 0) for home in homes if home.is_online)


def note(fs: FileSystem, path: str, name: str, number: int) -> None:
    """On disk when this returns: the directory `path` has the partition, if another has it too."""
    write_offsets(fs, f"{path}/{MOVED_LOGS}", _read(fs, path) | {name: number})


def forget(fs: FileSystem, path: str, name: str) -> None:
    """No other directory has it any more."""
    left = {each: number for each, number in _read(fs, path).items() if each != name}
    if left:
        write_offsets(fs, f"{path}/{MOVED_LOGS}", left)
    else:
        remove_if_there(fs, f"{path}/{MOVED_LOGS}")


def forget_all(fs: FileSystem, homes: Sequence[LogDirectoryLock]) -> None:
    """Every directory was looked at, and no partition is in two of them."""
    for home in homes:
        try:
            remove_if_there(fs, f"{home.path}/{MOVED_LOGS}")
        except OSError as error:
            home.directory.fault(error, f"opening {home.path}")


def take_superseded(
    fs: FileSystem, homes: Sequence[LogDirectoryLock]
) -> list[tuple[LogDirectoryLock, str]]:
    """Leaves each partition in one directory's list; returns what was left out, and where.

    Raises where a partition is in two directories and nothing says which one has it.
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


def twice(name: str, first: str, second: str) -> DiskError:
    return DiskError(f"{name} is in {first} and in {second}: move one of them away")


def _read(fs: FileSystem, path: str) -> dict[str, int]:
    try:
        return read_offsets(fs, f"{path}/{MOVED_LOGS}")
    except CorruptCheckpoint as error:
        log.warning("ignored a damaged list of moves", extra={"reason": str(error)})
        return {}
