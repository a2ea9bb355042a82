"""Moves replicas between this broker's log directories (AlterReplicaLogDirs).

A copy grows in the other directory while the original serves. When it has everything, it takes the
original's place in one step, without a wait in between. What is not finished when the broker stops
is dropped, and made again when somebody asks again. One replica is moved at a time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.records.batch import whole_size
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.replication.throttle import ReplicationRate
from headrace.storage.errors import StorageError
from headrace.storage.log import Log
from headrace.storage.log_home import LogHome
from headrace.storage.producers import Origin

if TYPE_CHECKING:
    from headrace.broker.node import Broker

log = logging.getLogger(__name__)

PIECE_BYTES: Final = 1024 * 1024
LAST_PIECES: Final = 4
"""So little may be left for the step in which the copy takes over."""

Key = tuple[str, int]


class Move(NamedTuple):
    """A replica on its way; `copy` is what is there of it already."""

    home: LogHome
    copy: Log | None = None


class ReplicaMover:
    """All moves of one broker, in the order in which they were asked for."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.moves: dict[Key, Move] = {}
        self._rate = ReplicationRate()
        self._task: asyncio.Task[None] | None = None

    def move(self, topic: str, index: int, home: LogHome) -> None:
        """Begins, or goes elsewhere than was said before; there already is an end to it."""
        key = (topic, index)
        known = self.moves.pop(key, None)
        if known is not None and known.copy is not None and known.home is not home:
            self._broker.logs.drop_copy(known.copy)
            known = None
        current = self._broker.logs.get(topic, index)
        if current is not None and current.directory is not home.directory:
            self.moves[key] = known or Move(home)
            if self._task is None:
                self._task = self._broker.loop.create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self.moves:
                key = next(iter(self.moves))
                try:
                    await self._move(key)
                except StorageError as error:
                    log.error(
                        "a replica was not moved",
                        extra={"topic": key[0], "partition": key[1], "error": str(error)},
                    )
                    self._drop(key)
        finally:
            self._task = None

    def _drop(self, key: Key) -> None:
        move = self.moves.pop(key, None)
        if move is not None and move.copy is not None:
            self._broker.logs.drop_copy(move.copy)

    async def _move(self, key: Key) -> None:
        """One step after the other; roles and logs may have changed after every wait."""
        seen = -1
        while key in self.moves:
            move = self.moves[key]
            replica = self._broker.partitions.replica(*key)
            if replica is None or not move.home.is_online:
                self._drop(key)
                return
            original = replica.log
            copy = move.copy
            if copy is None or original.truncations != seen:
                # Also what was copied may have been taken back: from the start.
                seen = original.truncations
                self._begin(key, move, original)
                continue
            if self._copy_piece(original, copy):
                await self._pause()
                continue
            await self._broker.offload(copy.flush)
            if self.moves.get(key) == move and original.truncations == seen:
                if self._finish(key, replica, original, copy):
                    return
                await self._pause()

    def _begin(self, key: Key, move: Move, original: Log) -> None:
        if move.copy is not None:
            self._broker.logs.drop_copy(move.copy)
        # A log may start inside a batch.
        start = original.read(original.log_start_offset, max_bytes=1).first_offset
        copy = self._broker.logs.begin_copy(
            original, move.home, min(start, original.log_start_offset)
        )
        self.moves[key] = Move(move.home, copy)

    def _copy_piece(self, original: Log, copy: Log) -> int:
        """The bytes that were copied, 0 at the original's end."""
        offset = copy.log_end_offset
        if offset >= original.log_end_offset:
            return 0
        if offset < original.log_start_offset and copy.log_start_offset != offset:
            copy.truncate_fully_and_start_at(original.log_start_offset)
            return 1
        data = original.read(offset, max_bytes=PIECE_BYTES).data
        size = whole_size(data)
        copy.append(
            memoryview(data)[:size],
            leader_epoch=original.latest_epoch,
            now_ms=self._broker.clock.wall_ms(),
            origin=Origin.REPLICATION,
        )
        self._rate.spend(size, self._broker.clock.monotonic())
        return size

    def _finish(self, key: Key, replica: Replica, original: Log, copy: Log) -> bool:
        """Takes the place of the original, if that can be done now. Nothing waits in here."""
        if self._broker.partitions.replica(*key) is not replica or replica.log is not original:
            return False
        if self._broker.flusher.is_flushing(replica) or (
            isinstance(replica, Leader) and replica.flush_pending
        ):
            return False  # somebody was promised that this very log is flushed
        for _ in range(LAST_PIECES):
            if not self._copy_piece(original, copy):
                break
        else:
            return False
        del self.moves[key]
        replica.moved_to(self._broker.logs.finish_copy(original, copy))
        log.info(
            "moved a replica",
            extra={"topic": key[0], "partition": key[1], "to": copy.directory.path},
        )
        return True

    async def _pause(self) -> None:
        rate = self._broker.effective.broker_value("replica.alter.log.dirs.io.max.bytes.per.second")
        assert isinstance(rate, int)
        self._rate.limit(rate)
        await asyncio.sleep(self._rate.wait_s(self._broker.clock.monotonic()))
