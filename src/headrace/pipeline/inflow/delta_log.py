"""The files that a Delta table's versions have added, from its log.

Only rows that are added can be streamed. A version that deletes or changes rows stops the flow with
its number; one that only rewrites files (compaction) adds nothing.
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
    """A version cannot be streamed: which, why, and what to do."""


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
        """Those whose log entries are there, in order."""
        where = fs.FileSelector(f"{self._root}/{LOG}", allow_not_found=True)
        names = (each.base_name for each in self._store.get_file_info(where))
        found = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(int(name) for name in found if name.isdecimal())

    def schema(self) -> "StructType":
        """The table's columns as they are now, for Spark; raises `NotAppended`."""
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
            # Not by `splitlines`: a text in the log may hold other ends of lines.
            lines = stream.read().decode("utf-8").split("\n")
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
        path = unquote(added["path"])
        _check_place(version, path, added.get("partitionValues") or {})
        files.append(AddedFile(path, int(added.get("size") or 0)))
    return files


def _check_place(version: int, path: str, partition_values: Mapping[str, object]) -> None:
    """Spark takes partition values from the names of folders; elsewhere it finds nulls."""
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
