"""The pipelines that have written to a Delta table, from the table's log.

deltalake looks up one application transaction by name; it does not list them. They are in the
newest checkpoint of the log and in the commits after it.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

import pyarrow.parquet as pq
from pyarrow import fs

LOG: Final = "_delta_log"
_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\b.*\.parquet")
_OFFSET_APP: Final = re.compile(r"headrace/([^/]+)/([^/]+)/\d+")


def delta_writers(store: fs.FileSystem, base: str) -> dict[str, set[str]]:
    """The topics that each pipeline has read into the table."""
    found: dict[str, set[str]] = {}
    for app in _application_ids(store, f"{base}/{LOG}"):
        named = _OFFSET_APP.fullmatch(app)
        if named is not None:
            found.setdefault(named[1], set()).add(named[2])
    return found


def _application_ids(store: fs.FileSystem, log: str) -> Iterator[str]:
    files = store.get_file_info(fs.FileSelector(log, allow_not_found=True))
    checkpoints = _numbered(_CHECKPOINT, files)
    newest = max((version for version, _ in checkpoints), default=-1)
    for version, path in checkpoints:
        if version == newest:
            rows = pq.read_table(path, columns=["txn"], filesystem=store).column("txn")
            yield from (row["appId"] for row in rows.drop_null().to_pylist())
    for version, path in _numbered(_COMMIT, files):
        if version > newest:
            with store.open_input_stream(path) as file:
                lines = file.read().splitlines()
            actions = (json.loads(line) for line in lines if line)
            yield from (each["txn"]["appId"] for each in actions if "txn" in each)


def _numbered(pattern: re.Pattern[str], files: list[fs.FileInfo]) -> list[tuple[int, str]]:
    matches = ((pattern.fullmatch(info.base_name), info.path) for info in files)
    return [(int(found[1]), path) for found, path in matches if found is not None]
