"""Retries a table's commit when another writer was faster."""

from collections.abc import Callable
from typing import Final

from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch, SinkError

COMMIT_TRIES: Final = 20


def commit_with_retries(
    commit: Callable[[], CommittedBatch],
    conflicts: tuple[type[Exception], ...],
    *,
    where: str,
    batch: BatchInfo,
) -> CommittedBatch:
    """Calls `commit` until it raises none of `conflicts`; raises `SinkError` after the last try.

    Each call must read the table again, and return the batch if the table already has it.
    """
    for _ in range(COMMIT_TRIES):
        try:
            return commit()
        except conflicts as error:
            failure = error
    raise SinkError(
        f"{where}: batch {batch.batch_id} lost {COMMIT_TRIES} commits to other writers "
        f"({failure}). Restart the pipeline when there are fewer writers"
    ) from failure
