"""Reads the files that versions of a Delta table have added, from the table's log.

Only added rows can be streamed. A version that deletes or changes rows stops the flow, and the
error has its number. A version that only rewrites files (compaction) adds nothing.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from pyarrow import fs

from headrace.pipeline.sinks.file_stores import delta_options, open_store

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

LOG: Final = "_delta_log"
MAPPING: Final = "delta.columnMapping.mode"


class NotAppended(Exception):
    """A version that cannot be streamed. The message says which, why, and what to do."""


class AddedFile(NamedTuple):
    """A file that a version has added."""

    path: str
    size: int


class DeltaLog:
    """The log of one table."""

    def __init__(self, location: str, storage_options: Mapping[str, str] | None) -> None:
        self._location = location.rstrip("/")
        self._options = storage_options
        self._store, self._root = open_store(location, storage_options)

    def versions(self) -> list[int]:
        """The versions whose log entries exist, in order."""
        where = fs.FileSelector(f"{self._root}/{LOG}", allow_not_found=True)
        names = (each.base_name for each in self._store.get_file_info(where))
        found = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(int(name) for name in found if name.isdecimal())

    def schema(self) -> "StructType":
        """The table's current columns, for Spark; raises `NotAppended`."""
        from deltalake import DeltaTable
        from pyspark.sql.types import StructType

        options = delta_options(self._location, self._options)
        table = DeltaTable(self._location, storage_options=options)
        if table.metadata().configuration.get(MAPPING, "none") != "none":
            raise NotAppended(
                f"{self._location} maps its columns to other names ({MAPPING}), which cannot be "
                "streamed: stream a copy of the table without it"
            )
        return StructType.fromJson(json.loads(table.schema().to_json()))

    def added(self, version: int) -> list[AddedFile]:
        """The files that the version has added; raises `NotAppended`."""
        path = f"{self._root}/{LOG}/{version:020}.json"
        with self._store.open_input_stream(path) as stream:
            # Not `splitlines`: texts in the log may contain other line separators.
            lines = stream.read().decode("utf-8").split("\n")
        return [
            each._replace(path=f"{self._location}/{each.path}")
            for each in added_files(version, lines)
        ]


def added_files(version: int, lines: list[str]) -> list[AddedFile]:
    """The files in one log entry, with paths relative to the table. Pure."""
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
        path = unquote(added["path"])
        _check_place(version, path, added.get("partitionValues") or {})
        files.append(AddedFile(path, int(added.get("size") or 0)))
    return files


def _check_place(version: int, path: str, partition_values: Mapping[str, object]) -> None:
    """Raises `NotAppended` for files whose directories do not name the partition values.

    Spark reads these values from the directories, and would return nulls.
    """
    folders = path.split("/")[:-1]
    if "://" in path:
        raise NotAppended(
            f"version {version} of the table has files elsewhere (it is a shallow clone), which "
            "cannot be streamed: stream the table that it was cloned from"
        )
    if {unquote(each.partition("=")[0]) for each in folders} != set(partition_values):
        raise NotAppended(
            f"version {version} of the table has files in folders that are not named for its "
            "partitions (delta.randomizeFilePrefixes, say), which cannot be streamed: stream a "
            "copy of the table"
        )
