"""What a reader of metadata asks for, and what it gets: znodes and the names of their children."""

from collections.abc import Generator, Sequence
from typing import NamedTuple


class Znode(NamedTuple):
    """The data and version of a znode, and the number of its children."""

    data: bytes
    version: int
    child_count: int = 0


class ZnodeRead(NamedTuple):
    """The next read: the contents of znodes, or the names of their children."""

    znodes: Sequence[str] = ()
    children: Sequence[str] = ()


class ZnodeReadResult(NamedTuple):
    """The result of a `ZnodeRead`, in its order; None for a znode that does not exist."""

    znodes: Sequence[Znode | None] = ()
    children: Sequence[Sequence[str] | None] = ()


Reading = Generator[ZnodeRead, ZnodeReadResult, None]
"""Yields the next reads and is sent their results."""
