"""The files that a Delta table's versions have added, from its log.

Only rows that are added can be streamed. A version that deletes or changes rows stops the flow with
its number; one that only rewrites files (compaction) adds nothing.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyarrow import fs

from headrace.pipeline.sinks.stores import open_store

LOG: Final = "_delta_log"


class NotAppended(Exception):
    """A version cannot be streamed: which, why, and what to do."""


class AddedFile(NamedTuple):
    """A file that a version has added."""

    path: str
    size: int


class DeltaLog:
    """The log of one table."""

    def __init__(self, location: str, storage_options: Mapping[str, str] | None) -> None:
        self._location = location.rstrip("/")
        self._store, self._root = open_store(location, storage_options)

    def versions(self) -> list[int]:
        """Those whose log entries are there, in order."""
        where = fs.FileSelector(f"{self._root}/{LOG}", allow_not_found=True)
        names = (each.base_name for each in self._store.get_file_info(where))
        found = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(int(name) for name in found if name.isdecimal())

    def added(self, version: int) -> list[AddedFile]:
        """The files that the version has added; raises `NotAppended`."""
        path = f"{self._root}/{LOG}/{version:020}.json"
        with self._store.open_input_stream(path) as stream:
            lines = stream.read().decode("utf-8").splitlines()
        return [
            each._replace(path=f"{self._location}/{each.path}")
            for each in added_files(version, lines)
        ]


def added_files(version: int, lines: list[str]) -> list[AddedFile]:
    """The files in one entry of the log, by paths within the table. Pure."""
    files = []
    for line in filter(None, map(str.strip, lines)):
        action = json.loads(line)
        removed = action.get("remove")
        if removed is not None and removed.get("dataChange", True):
            raise NotAppended(
                f"version {version} of the table deletes or changes rows, and a topic can only be "
                f"added to. Go on behind it: `headrace pipeline reset SPEC --to {version + 1}`"
            )
        added = action.get("add")
        if added is None or not added.get("dataChange", True):
            continue
        if added.get("deletionVector"):
            raise NotAppended(f"version {version} of the table has deletion vectors")
        files.append(AddedFile(unquote(added["path"]), int(added.get("size") or 0)))
    return files
