"""The numbered schemas that a pipeline has used, in its checkpoint directory.

A schema is pinned before the first record is read with it. So a record has the same meaning after a
restart. A changed schema file becomes a new version. Each row names the version that it was read
with.
"""

import json
import os
from pathlib import Path
from typing import Final, NamedTuple

from headrace.pipeline.formats.errors import FormatError

FOLDER: Final = "schemas"


class Pinned(NamedTuple):
    """One version. `text` is the schema in the format's own language: DDL, Avro JSON, ..."""

    version: int
    format: str
    text: str


def latest(checkpoint: str, side: str) -> Pinned | None:
    """Returns the latest version of the key's or value's schema. Raises `FormatError`."""
    files = sorted(_folder(checkpoint, side).glob("v*.json"))
    return _read(files[-1]) if files else None


def pin(checkpoint: str, side: str, format_name: str, text: str) -> Pinned:
    """Returns the version of this schema. A changed schema gets a new version."""
    last = latest(checkpoint, side)
    if last is not None and (last.format, last.text) == (format_name, text):
        return last
    pinned = Pinned(1 if last is None else last.version + 1, format_name, text)
    _write(_folder(checkpoint, side) / f"v{pinned.version:06}.json", pinned)
    return pinned


def _folder(checkpoint: str, side: str) -> Path:
    return Path(checkpoint.removeprefix("file://")) / FOLDER / side


def _read(file: Path) -> Pinned:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return Pinned(int(found["version"]), str(found["format"]), str(found["schema"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"the pinned schema {file} cannot be read ({error}); restore it, or delete it to have "
            "the schema pinned anew"
        ) from None


def _write(file: Path, pinned: Pinned) -> None:
    """Writes the file atomically. An incomplete file must not become the latest version."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"version": pinned.version, "format": pinned.format, "schema": pinned.text}
    part = file.with_suffix(f".{os.getpid()}.part")
    with part.open("w", encoding="utf-8") as out:
        json.dump(content, out, indent=2)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)
