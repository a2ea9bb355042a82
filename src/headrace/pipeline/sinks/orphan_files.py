"""Decides which files that no version of a table names may be deleted. Pure.

Such a file is either an orphan (of a crash, or of an expired version) or not committed yet. A
task's file name shows which: it has the pipeline and the batch, and a batch that the table holds
commits nothing more. Any other file may still be committed until it is a day old, however short
the spec's retention time is.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

HOUR_S: Final = 3600.0
UNDER_WAY_HOURS: Final = 24.0
"""Longer than any batch takes from its first file to its commit."""


class FileOrigin(NamedTuple):
    """The batch that a task wrote a file for."""

    pipeline: str
    batch_id: int


def task_prefix(pipeline: str, batch_id: int) -> str:
    """The prefix of a batch's file names; a dash and a random part follow."""
    return f"{pipeline}-{batch_id}"


def origin_of(name: str) -> FileOrigin | None:
    """The batch in a file's name; None if a task did not name it."""
    pipeline, _, rest = name.rpartition("/")[2].rpartition("-")[0].rpartition("-")
    return FileOrigin(pipeline, int(rest)) if pipeline and rest.isdecimal() else None


class OrphanFiles:
    """Decides by a file's name and age, at one moment."""

    def __init__(
        self, older_than_hours: float, now_s: float, last_batch: Callable[[str], int | None]
    ) -> None:
        self._kept_since_s = now_s - older_than_hours * HOUR_S
        self._under_way_since_s = now_s - max(older_than_hours, UNDER_WAY_HOURS) * HOUR_S
        self._last_batch = last_batch
        self._last_batches: dict[str, int | None] = {}

    def may_be_deleted(self, name: str, modified_s: float) -> bool:
        """Whether a file that no version names may be deleted."""
        since = self._kept_since_s if self._is_of_finished_batch(name) else self._under_way_since_s
        return modified_s <= since

    def _is_of_finished_batch(self, name: str) -> bool:
        origin = origin_of(name)
        if origin is None:
            return False
        if origin.pipeline not in self._last_batches:
            self._last_batches[origin.pipeline] = self._last_batch(origin.pipeline)
        last = self._last_batches[origin.pipeline]
        return last is not None and origin.batch_id <= last
