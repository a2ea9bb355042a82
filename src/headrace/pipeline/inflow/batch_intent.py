"""What a batch reads, written down before it runs.

A topic's marker only has room for the number of the batch. What the batch read stands in a file of
that number in the checkpoint directory. A batch that was begun and not committed is done again with
the very same input, so whether the last commit went through or not, no row is lost or doubled.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = "inflow"
NO_BATCH: Final = -1


class BadIntent(Exception):
    """The record of what was read is damaged: nothing can be read without it."""


@dataclass(frozen=True, slots=True)
class BatchIntent:
    """One batch's input."""

    batch_id: int
    files: tuple[str, ...]
    """Paths of files, complete."""
    through: int = -1
    """Of a table: the last version that was read whole."""
    within: int = 0
    """Of a table: so many files of the version behind it were read, too."""
    passed: tuple[str, ...] = ()
    """Paths of files that are not to be read; somebody has said so."""
    is_anew: bool = False
    """What earlier batches have read does not count any more; somebody has said so."""
    versions: tuple[int, ...] = ()
    """Of a table: which version has added each of the files."""

    def versioned(self) -> Iterable[tuple[str, int]]:
        """The files of a table with their versions."""
        return zip(self.files, self.versions, strict=False)  # earlier releases wrote none down


class BatchIntents:
    """All intents of a flow."""

    def __init__(self, checkpoint: Path) -> None:
        self._folder = checkpoint / FOLDER
        self._known: dict[int, BatchIntent] = {}

    def get(self, batch_id: int) -> BatchIntent | None:
        if batch_id not in self._known:
            file = self._file(batch_id)
            if not file.exists():
                return None
            self._known[batch_id] = _read(file)
        return self._known[batch_id]

    def until(self, batch_id: int) -> list[BatchIntent]:
        """What was read up to and with that batch; raises `BadIntent` if it is not known."""
        counting: list[BatchIntent] = []
        for each in range(batch_id + 1):
            found = self.get(each)
            if found is None:
                raise BadIntent(
                    f"{self._file(each)} is missing: it says what batch {each} has read, and the "
                    "topic holds that batch. Restore the checkpoint directory, or give the "
                    "pipeline another name and directory to read everything anew"
                )
            if found.is_anew:
                counting = []
            counting.append(found)
        return counting

    def save(self, intent: BatchIntent) -> None:
        """On disk when this returns."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f".{intent.batch_id}.part"
        content = {
            "batch": intent.batch_id,
            "files": list(intent.files),
            "through": intent.through,
            "within": intent.within,
            "passed": list(intent.passed),
            "anew": intent.is_anew,
            "versions": list(intent.versions),
        }
        with part.open("w", encoding="utf-8") as out:
            json.dump(content, out)
            out.flush()
            os.fsync(out.fileno())
        part.replace(self._file(intent.batch_id))
        self._known[intent.batch_id] = intent

    def _file(self, batch_id: int) -> Path:
        return self._folder / f"{batch_id:08}.json"


def _read(file: Path) -> BatchIntent:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return BatchIntent(
            int(found["batch"]),
            tuple(map(str, found["files"])),
            int(found["through"]),
            int(found["within"]),
            tuple(map(str, found["passed"])),
            bool(found["anew"]),
            tuple(map(int, found.get("versions", ()))),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadIntent(f"{file} cannot be read: {error}. Restore it") from None
