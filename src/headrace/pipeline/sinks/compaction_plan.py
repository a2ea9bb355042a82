"""Groups small files for compaction. Pure."""

from collections.abc import Iterable
from typing import Final, TypeVar

SMALL_SHARE: Final = 0.5  # a file below half the target is worth joining

F = TypeVar("F")


def packed(files: Iterable[tuple[F, int]], target_bytes: int) -> list[list[F]]:
    """Groups of small files, in their order, each of about the target's size; none of one file."""
    groups: list[list[F]] = []
    size = 0
    for file, size_bytes in files:
        if size_bytes >= target_bytes * SMALL_SHARE:
            continue
        if not groups or size + size_bytes > target_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += size_bytes
    return [group for group in groups if len(group) > 1]
