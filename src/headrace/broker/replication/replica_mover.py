"""Moves replicas between this broker's log directories (AlterReplicaLogDirs).

A copy grows in the other directory while the original serves. When the copy is complete, it
replaces the original in one step, without an await. A stop, including `kill -9`, interrupts a move:
the next start resumes with the existing copy (`storage/directories/future_logs.py`).

A replica is not compacted while it moves. A move to a full disk is cancelled, and its space is
freed; a move to a failed disk resumes when a later start finds the disk working.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final, Protocol

from headrace.broker.partitions.flusher import Flusher
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.runtime.offload import Offload
from headrace.clock import Clock
from headrace.cluster.effective_config import EffectiveConfig
from headrace.records.batch_header import whole_size
from headrace.replication.replica import Replica
from headrace.replication.sole_leader import SoleLeader
from headrace.replication.throttled_replicas import ReplicationRate
from headrace.storage.directories.future_logs import copy_start_offset, truncate_copy
from headrace.storage.directories.log_directory import LogDirectory
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import DiskFull, StorageError
from headrace.storage.log.log import Log
from headrace.storage.state.producers import BatchOrigin

log = logging.getLogger(__package__)

PIECE_BYTES: Final = 1024 * 1024
LAST_PIECES: Final = 4
"""At most this much may remain for the step in which the copy takes over."""
RETRY_S: Final = 10.0  # an unreadable original may be repaired later
CLEANING_CHECK_S: Final = 0.1

Key = tuple[str, int]


class Compaction(Protocol):
    """The compaction of this broker's logs."""

    def is_cleaning(self, cleaned: Log) -> bool: ...


class ReplicaMoverHost(Protocol):
    """The part of the broker that moves use."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    offload: Offload
    flusher: Flusher
    partitions: PartitionTable

    @property
    def logs(self) -> LogManager: ...

    @property
    def cleaner(self) -> Compaction: ...

    @property
    def effective(self) -> EffectiveConfig: ...


class ReplicaMover:
    """All moves of one broker, derived from the existing copies.

    At most `num.replica.alter.log.dirs.threads` moves run at once, by default one for each
    directory. The others wait in the order of their requests.
    """

    def __init__(self, host: ReplicaMoverHost) -> None:
        self._host = host
        self._futures = host.logs.futures
        self._rate = ReplicationRate()
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._failed: dict[Key, str] = {}  # moves to retry, with the reason
        self._stopped = False

    def move(self, replica: Replica, directory: LogDirectory) -> None:
        """Starts a move or changes its target; ends it if the replica is already there."""
        key = replica.topic, replica.index
        copy = self._futures.get(*key)
        if copy is not None and copy.directory is not directory.state:
            self._futures.drop(*key)
            copy = None
        current = self._host.logs.get(*key)
        if current is None or current.directory is directory.state:
            return
        if copy is None:
            self._futures.create_copy(current, directory, replica.topic_id)
        self._failed.pop(key, None)
        self.resume()

    def resume(self) -> None:
        """Resumes moves with existing copies, as many at once as allowed."""
        for copy in self._futures:
            if self._stopped or len(self._tasks) >= self._max_moves_at_once:
                return
            key = copy.topic, copy.partition
            if key not in self._tasks and key not in self._failed:
                task = self._tasks[key] = self._host.loop.create_task(self._run(key))
                task.add_done_callback(partial(self._move_ended, key))

    def stop(self) -> None:
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()

    @property
    def _max_moves_at_once(self) -> int:
        value = self._host.effective.broker_value("num.replica.alter.log.dirs.threads")
        return max(1, value) if isinstance(value, int) else len(self._host.logs.directories)

    def _move_ended(self, key: Key, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed[key] = str(error)
            log.error(
                "unexpected error while moving a replica; the next start of the broker resumes it",
                extra={"topic": key[0], "partition": key[1]},
                exc_info=error,
            )
        self.resume()

    async def _run(self, key: Key) -> None:
        try:
            await self._move(key)
        except StorageError as error:
            copy = self._futures.get(*key)
            if copy is None:
                return  # cancelled during a write, or after a full disk was detected
            where = {"topic": key[0], "partition": key[1], "error": str(error)}
            if isinstance(error, DiskFull) or copy.directory.failure is not None:
                self._futures.drop(*key)
                log.error(
                    "cannot move a replica to another log directory; the move is cancelled",
                    extra=where,
                )
                return
            log.error(
                "cannot move a replica to another log directory yet; it is retried", extra=where
            )
            self._failed[key] = str(error)
            self._host.loop.call_later(RETRY_S, self._retry, key)

    def _retry(self, key: Key) -> None:
        if self._failed.pop(key, None) is not None:
            self.resume()

    async def _move(self, key: Key) -> None:
        """Moves one replica step by step; roles and logs may change during every wait."""
        aligned: tuple[Log, Log, int] | None = None
        while (copy := self._futures.get(*key)) is not None:
            replica = self._host.partitions.replica(*key)
            if replica is None or replica.topic_id != copy.topic_id:
                self._futures.drop(*key)
                return
            original = replica.log
            if self._host.cleaner.is_cleaning(original):
                await asyncio.sleep(CLEANING_CHECK_S)
                continue
            seen = copy, original, original.truncations
            if seen != aligned:
                # The copy is from an earlier run, or the original may have been truncated since.
                truncate_copy(copy, original)
                aligned = seen
            if self._copy_piece(original, copy):
                if copy.flush_is_due(self._host.clock.wall_ms()):
                    await self._host.offload(copy.flush)  # saves reading at the next start
                await self._pause()
                continue
            await self._host.offload(copy.flush)
            is_same = self._futures.get(*key) is copy and original.truncations == seen[2]
            if is_same and self._finish(replica, original, copy):
                return
            await self._pause()

    def _copy_piece(self, original: Log, copy: Log) -> int:
        """The number of bytes copied; 0 at the original's end."""
        offset = copy.log_end_offset
        if offset >= original.log_end_offset:
            return 0
        start = original.log_start_offset
        if offset < start:
            first = copy_start_offset(original)
            if offset < first:  # the next records are deleted
                copy.truncate_fully_and_start_at(first)
                return 1
        data = original.read(max(offset, start), max_bytes=PIECE_BYTES).data
        size = whole_size(data)
        copy.append(
            memoryview(data)[:size],
            leader_epoch=original.latest_epoch,
            now_ms=self._host.clock.wall_ms(),
            origin=BatchOrigin.REPLICATION,
        )
        self._limit_rate()
        self._rate.spend(size, self._host.clock.monotonic())
        return size

    def _finish(self, replica: Replica, original: Log, copy: Log) -> bool:
        """Replaces the original if that is possible now. Never awaits."""
        key = replica.topic, replica.index
        if self._host.partitions.replica(*key) is not replica or replica.log is not original:
            return False
        if self._host.cleaner.is_cleaning(original) or self._host.flusher.is_flushing(replica):
            return False
        if isinstance(replica, SoleLeader) and replica.flush_pending:
            return False  # requests wait for a flush of this log
        for _ in range(LAST_PIECES):
            if not self._copy_piece(original, copy):
                break
        else:
            return False
        replica.moved_to(self._host.logs.finish_move(original))
        log.info(
            "moved a replica to another log directory",
            extra={"topic": key[0], "partition": key[1], "to": copy.directory.path},
        )
        return True

    async def _pause(self) -> None:
        self._limit_rate()
        await asyncio.sleep(self._rate.wait_s(self._host.clock.monotonic()))

    def _limit_rate(self) -> None:
        rate = self._host.effective.broker_value("replica.alter.log.dirs.io.max.bytes.per.second")
        assert isinstance(rate, int)
        self._rate.limit(rate)
