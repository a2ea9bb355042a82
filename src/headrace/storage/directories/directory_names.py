"""The names of partition directories. Pure."""

from typing import NamedTuple

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
SECURITY = "security"
"""Has the certificates and client configurations of `headrace up --secure`."""
# The longest file name in common file systems.
MAX_NAME_BYTES = 255


class PartitionName(NamedTuple):
    topic: str
    partition: int


def parse(name: str) -> PartitionName | None:
    """The partition of a directory name; None if it is not a partition's name."""
    if name.endswith((DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX)):
        return None
    topic, dash, partition = name.rpartition("-")
    if not (dash and topic and partition.isdecimal() and str(int(partition)) == partition):
        return None
    return PartitionName(topic, int(partition))


def deleted(name: str, unique: str) -> str:
    """The name of a partition that is to be deleted."""
    return _ending(name, f".{unique}{DELETE_SUFFIX}")


def future(name: str, unique: str) -> str:
    """The name of a partition's copy in another directory.

    A restart finds the partition by this name, so a long name shortens the id instead: a partition
    has only one copy. The copy of a topic whose name has more than 244 bytes is not found again.
    """
    room = MAX_NAME_BYTES - len(f"{name}.{FUTURE_SUFFIX}")
    return _ending(name, f".{unique[: max(1, room)]}{FUTURE_SUFFIX}")


def stray(name: str, unique: str) -> str:
    """The name of a stray log."""
    return _ending(name, f".{unique}{STRAY_SUFFIX}")


def original_of(name: str) -> PartitionName | None:
    """The partition of an unfinished copy; None if the name is not a copy's."""
    if not name.endswith(FUTURE_SUFFIX):
        return None
    return parse(name.rpartition(".")[0])


def _ending(name: str, ending: str) -> str:
    return name[: MAX_NAME_BYTES - len(ending)] + ending
