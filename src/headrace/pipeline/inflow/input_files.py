"""Lists the files of a directory, and selects those of the next batch."""

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatch
from typing import Final, NamedTuple

from pyarrow import fs

from headrace.pipeline.sinks.file_stores import open_store

WILD: Final = "*?["
_GLOB: Final = re.compile(r"([{}\[\]*?\\])")


class NoFolder(Exception):
    """The directory of a source does not exist. (A bucket has no empty directories.)"""


class FoundFile(NamedTuple):
    """A file; older files sort first."""

    modified_s: float
    path: str
    size: int


def list_files(location: str, storage_options: Mapping[str, str] | None) -> list[FoundFile]:
    """The files of a directory or a pattern, or one file; oldest first, without hidden files."""
    base, pattern = split_pattern(location)
    store, root = open_store(base, storage_options)
    scheme, remote, _ = base.partition("://")
    prefix = f"{scheme}://" if remote and scheme != "file" else ""
    there = store.get_file_info(root)
    if there.type is fs.FileType.NotFound and not prefix:
        raise NoFolder(f"there is no folder {root}. Make it, or correct files: in the spec")
    if there.is_file:
        return [_found(there, prefix)]
    found = []
    for each in store.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True)):
        within = each.path.removeprefix(root).lstrip("/")
        hidden = any(part.startswith((".", "_")) for part in within.split("/"))
        if each.is_file and not hidden and (not pattern or fnmatch(within, pattern)):
            found.append(_found(each, prefix))
    return sorted(found)


def _found(file: fs.FileInfo, prefix: str) -> FoundFile:
    modified_s = file.mtime.timestamp() if file.mtime is not None else 0.0
    return FoundFile(modified_s, f"{prefix}{file.path}", file.size or 0)


def split_pattern(location: str) -> tuple[str, str]:
    """The directory, and the pattern of paths within it; "" matches all."""
    parts = location.split("/")
    for at, part in enumerate(parts):
        if any(wild in part for wild in WILD):
            return "/".join(parts[:at]) or ("/" if location.startswith("/") else "."), "/".join(
                parts[at:]
            )
    return location, ""


def for_spark(path: str) -> str:
    """The path with escaped wildcards: Spark would treat it as a pattern."""
    return _GLOB.sub(r"\\\1", path)


def next_files(
    found: Sequence[FoundFile], read: Collection[str], max_files: int, max_bytes: int
) -> list[str]:
    """The paths of the next batch: at least one, if there is a new file. Pure."""
    chosen: list[str] = []
    size = 0
    for each in found:
        if each.path in read:
            continue
        if len(chosen) == max_files or (chosen and size + each.size > max_bytes):
            break
        chosen.append(each.path)
        size += each.size
    return chosen
