"""The input of a batch, saved before the batch runs.

A topic's marker has room only for the number of the batch. A file of that number, in the checkpoint
directory, has the input of the batch. A batch that was begun and not committed runs again with the
same input. So no row is lost or duplicated, whether the last commit succeeded or not.
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
    """An intent is missing or damaged; without it the flow cannot read."""


@dataclass(frozen=True, slots=True)
class BatchIntent:
    """The input of one batch."""

    batch_id: int
    files: tuple[str, ...]
    """Complete paths of files."""
    through: int = -1
    """For a table: the last version that is read completely."""
    within: int = 0
    """For a table: the number of files of the next version that were read by then."""
    passed: tuple[str, ...] = ()
    """Paths of files that a reset excludes from reading."""
    is_anew: bool = False
    """Whether this is a reset: the input of earlier batches no longer counts as read."""
    versions: tuple[int, ...] = ()
    """For a table: the version that added each file."""

    def versioned(self) -> Iterable[tuple[str, int]]:
        """The files of a table with their versions."""
        return zip(self.files, self.versions, strict=False)  # intents of older releases have none


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
        """The intents up to and including that batch; raises `BadIntent` if one is missing."""
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
        """Saves the intent durably."""
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
