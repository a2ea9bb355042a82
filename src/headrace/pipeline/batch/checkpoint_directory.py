"""A flow's checkpoint directory: start position, staged files, lock, times of table maintenance.

The directory holds no position: the table does. Its files are either written before they are
needed (the start position) or can be deleted (staged files).
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headrace.pipeline.batch.planner import StartPosition
from headrace.pipeline.core.offsets import offsets_from_json, offsets_to_json

BEGINNING: Final = "beginning.json"
STAGING: Final = "staging"
HISTORY: Final = "history"
LOCK: Final = "lock"
OWNER: Final = "owner.json"
RUN: Final = "run.json"
UPKEEP: Final = "upkeep.json"


class CheckpointError(Exception):
    """The directory cannot be used. The message says why and what to do."""


class Checkpoint:
    """One flow's directory. Spark's workers must see it under the same path."""

    def __init__(self, location: str) -> None:
        if "://" in location and not location.startswith("file://"):
            raise CheckpointError(
                f"checkpoint {location}: it must be a directory that this machine and Spark's "
                "workers can reach, not a bucket; only the table may be in a bucket"
            )
        self.path = Path(location.removeprefix("file://")).absolute()

    @contextmanager
    def locked(self, flow: str) -> Iterator[None]:
        """Locks the directory against a second run of the flow.

        The directory belongs to this flow for good: another flow would use its start position, its
        schemas and its list of read files.
        """
        self._create_directory(self.path)
        with (self.path / LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CheckpointError(
                    f"{self.path} is in use: the pipeline is already running. Stop that run first"
                ) from None
            self._check_owner(flow)
            yield

    def _check_owner(self, flow: str) -> None:
        found = self._read_file(OWNER)
        if found is None:  # new, or written by a release that stored no name
            self._write_file(OWNER, {"flow": flow})
        elif found.get("flow") != flow:
            raise CheckpointError(
                f"{self.path} is the checkpoint directory of {found.get('flow')}, and this is "
                f"{flow}: give it a directory of its own, checkpoint: in the spec. A renamed "
                "pipeline starts from the beginning and needs a new directory, too"
            )

    def is_locked(self) -> bool:
        """Whether a run holds the directory at this moment."""
        try:
            with (self.path / LOCK).open("r") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _create_directory(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise CheckpointError(f"cannot create {folder}: {reason}") from error

    # --- the beginning ----------------------------------------------------------------------------

    def beginning(self) -> StartPosition | None:
        """The saved start position; None for a flow that has never run."""
        found = self._read_file(BEGINNING)
        if found is None:
            return None
        try:
            return StartPosition(
                {str(topic): str(topic_id) for topic, topic_id in found["topic_ids"].items()},
                offsets_from_json(json.dumps(found["starts"])),
                {str(topic): int(batch) for topic, batch in found["since"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{self.path / BEGINNING} is damaged ({error}). Restore it, or start over with "
                "`headrace pipeline reset`"
            ) from None

    def save_beginning(self, beginning: StartPosition) -> None:
        """Saves durably: a batch that ran must find its start position again after a crash."""
        starts = json.loads(offsets_to_json(beginning.starts))
        self._write_file(
            BEGINNING,
            {
                "topic_ids": dict(beginning.topic_ids),
                "starts": starts,
                "since": dict(beginning.since),
            },
        )

    # --- staged files -----------------------------------------------------------------------------

    def staging(self, batch_id: int) -> Path:
        return self.path / STAGING / str(batch_id)

    def fresh_staging(self, batch_id: int) -> Path:
        """An empty folder for a batch's bad records; those of earlier attempts are removed."""
        self.clear_staging()
        folder = self.staging(batch_id)
        self._create_directory(folder)
        return folder

    def clear_staging(self) -> None:
        shutil.rmtree(self.path / STAGING, ignore_errors=True)

    # --- the last run ---------------------------------------------------------------------------

    def save_run(self, run: Mapping[str, object]) -> None:
        """Saves the spec and the process of the run that begins, for consoles and operators."""
        self._write_file(RUN, dict(run))

    def last_run(self) -> dict[str, Any] | None:
        return self._read_file(RUN)

    def owner(self) -> str | None:
        """The flow that the directory belongs to; None if it is no checkpoint directory."""
        found = self._read_file(OWNER)
        return None if found is None else str(found.get("flow") or "") or None

    # --- table maintenance ------------------------------------------------------------------------

    def upkeep(self) -> dict[str, float]:
        """When the table was last compacted and vacuumed, in seconds of the epoch."""
        found = self._read_file(UPKEEP) or {}
        return {str(what): float(when) for what, when in found.items()}

    def save_upkeep(self, times: dict[str, float]) -> None:
        self._write_file(UPKEEP, times)

    # --- the whole directory ----------------------------------------------------------------------

    @property
    def history(self) -> Path:
        return self.path / HISTORY

    def forget(self) -> None:
        """Deletes everything but the history: the flow starts over."""
        for name in (BEGINNING, UPKEEP):
            (self.path / name).unlink(missing_ok=True)
        shutil.rmtree(self.path / "schemas", ignore_errors=True)
        self.clear_staging()

    def _read_file(self, name: str) -> dict[str, Any] | None:
        file = self.path / name
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CheckpointError(f"cannot read {file}: {error}") from error
        return found  # type: ignore[no-any-return]

    def _write_file(self, name: str, content: object) -> None:
        """Writes the file atomically and durably."""
        self._create_directory(self.path)
        part = self.path / f".{name}.part"
        try:
            with part.open("w", encoding="utf-8") as out:
                json.dump(content, out, indent=2)
                out.flush()
                os.fsync(out.fileno())
            part.replace(self.path / name)
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise CheckpointError(f"cannot write {self.path / name}: {error.strerror}") from error
