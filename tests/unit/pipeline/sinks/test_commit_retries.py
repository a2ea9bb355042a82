"""A commit that loses to another writer is tried again, up to a limit."""

from collections.abc import Callable

import pytest

from headrace.pipeline.sinks.commit_retries import COMMIT_TRIES, commit_with_retries
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch, SinkError

BATCH = BatchInfo("orders", 7, ())
DONE = CommittedBatch(7, {}, "1")


class Conflict(Exception):
    """Another writer was faster."""


def losing(times: int) -> Callable[[], CommittedBatch]:
    """A commit with this number of conflicts, and then success."""
    conflicts = iter(range(times))

    def commit() -> CommittedBatch:
        if next(conflicts, None) is not None:
            raise Conflict("version 3 exists")
        return DONE

    return commit


def test_the_last_try_may_succeed() -> None:
    commit = losing(COMMIT_TRIES - 1)
    assert commit_with_retries(commit, (Conflict,), where="/t", batch=BATCH) == DONE


def test_too_many_conflicts_are_an_error_that_names_the_table_and_the_batch() -> None:
    with pytest.raises(SinkError, match=r"/t: batch 7 lost 20 commits .*version 3 exists") as lost:
        commit_with_retries(losing(COMMIT_TRIES), (Conflict,), where="/t", batch=BATCH)
    assert isinstance(lost.value.__cause__, Conflict)


def test_another_error_is_not_tried_again() -> None:
    calls = []

    def commit() -> CommittedBatch:
        calls.append(1)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        commit_with_retries(commit, (Conflict,), where="/t", batch=BATCH)
    assert len(calls) == 1
