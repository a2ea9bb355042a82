"""Waits until records are committed: flushed if the topic requires it, and on all in-sync
replicas."""

import asyncio

from headrace.broker.partitions.flusher import Flusher
from headrace.broker.runtime.error_codes import failure
from headrace.protocol.errors import ErrorCode
from headrace.replication.sole_leader import SoleLeader


def when_committed(
    loop: asyncio.AbstractEventLoop, flusher: Flusher, leader: SoleLeader, next_offset: int
) -> "asyncio.Future[ErrorCode]":
    """Completes when all records below `next_offset` are committed, or with the error."""
    done: asyncio.Future[ErrorCode] = loop.create_future()

    def complete(code: ErrorCode) -> None:
        if not done.done():
            done.set_result(code)

    def flushed(flush: "asyncio.Future[None]") -> None:
        error = flush.exception()
        if error is not None:
            leader.stop_waiting(complete)
            complete(failure(error)[0])

    leader.when_committed(next_offset, complete)
    if not done.done() and leader.flush_pending:
        flusher.flush(leader).add_done_callback(flushed)
    # A caller that has cancelled its wait is not notified.
    done.add_done_callback(
        lambda future: leader.stop_waiting(complete) if future.cancelled() else None
    )
    return done
