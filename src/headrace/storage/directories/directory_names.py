"""The names of partitions' directories. Pure."""

from typing import NamedTuple

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
# Longest file name that common file systems take.
MAX_NAME_BYTES = 255


class PartitionName(NamedTuple):
    topic: str
    partition: int


def parse(name: str) -> PartitionName | None:
    """The partition that a directory is named for; None if it is something else."""
    if name.endswith((DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX)):
        return None
    topic, dash, partition = name.rpartition("-")
    if not (dash and topic and partition.isdecimal() and str(int(partition)) == partition):
        return None
    return PartitionName(topic, int(partition))


def deleted(name: str, unique: str) -> str:
    """The name under which a partition waits for its removal."""
    return _ending(name, f".{unique}{DELETE_SUFFIX}")


def future(name: str, unique: str) -> str:
    """The name under which a partition's copy in another directory grows.

    A restart finds the partition by it, so the id is cut first: a partition has one copy at a time.
    Where not even that makes room, for topics of more than 244 bytes, the copy is not found again.
    """
    room = MAX_NAME_BYTES - len(f"{name}.{FUTURE_SUFFIX}")
    return _ending(name, f".{unique[: max(1, room)]}{FUTURE_SUFFIX}")


def stray(name: str, unique: str) -> str:
    """The name under which a partition that the cluster does not know is set aside."""
    return _ending(name, f".{unique}{STRAY_SUFFIX}")


def original_of(name: str) -> PartitionName | None:
    """The partition of which a directory is a copy that was not finished."""
    if not name.endswith(FUTURE_SUFFIX):
        return None
    return parse(name.rpartition(".")[0])


def _ending(name: str, ending: str) -> str:
    return name[: MAX_NAME_BYTES - len(ending)] + ending
