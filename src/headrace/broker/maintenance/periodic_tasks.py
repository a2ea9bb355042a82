"""The chores of one broker and their rhythm, from its settings."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Protocol

from headrace.broker.maintenance.log_cleaner import LogCleaner
from headrace.broker.maintenance.task_scheduler import PeriodicTask
from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.broker.network.limits import Limits
from headrace.broker.network.server import Server
from headrace.broker.partitions.flusher import Flusher
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.runtime.clock_jumps import ClockJumps
from headrace.broker.runtime.offload import Offload
from headrace.clock import Clock
from headrace.cluster.settings import BrokerSettings
from headrace.replication.replica import Replica
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import StorageError
from headrace.storage.log.log import Log

SWEEP_CONNECTIONS_S: Final = 5.0
SWEEP_FILES_S: Final = 1.0
DIRECTORY_LOOK_S: Final = 0.5  # how long a failed disk may keep its leaders
FLUSH_LOOK_S: Final = 0.5  # how late a flush by flush.ms may come
LOGS_PER_SLICE: Final = 64


class FailedReplicas(Protocol):
    """The replicas of this broker, some of which may be on a disk that has failed."""

    def resign_from_failed(self) -> None: ...


class PeriodicTasksHost(Protocol):
    """What the chores need of their broker."""

    clock: Clock
    offload: Offload
    settings: BrokerSettings
    server: Server
    partitions: PartitionTable
    flusher: Flusher
    cleaner: LogCleaner
    limits: Limits

    @property
    def logs(self) -> LogManager: ...

    @property
    def is_member(self) -> bool: ...

    @property
    def metadata(self) -> MetadataView: ...

    @property
    def replication(self) -> FailedReplicas: ...

    def high_watermarks(self) -> dict[str, int]: ...


def chores_of(host: PeriodicTasksHost) -> list[PeriodicTask]:
    chores = _always(host)
    if host.is_member:
        every_s = host.settings.integer("replica.high.watermark.checkpoint.interval.ms") / 1000
        chores.append(PeriodicTask("watermarks", every_s, _Watermarks(host).run))
        chores.append(PeriodicTask("directories", DIRECTORY_LOOK_S, _Directories(host).run))
    if host.settings.boolean("log.cleaner.enable"):
        chores.append(PeriodicTask("cleaner", host.cleaner.chore_s, host.cleaner.run))
    return chores


def _always(host: PeriodicTasksHost) -> list[PeriodicTask]:
    seconds = host.settings.integer
    return [
        PeriodicTask("connections", SWEEP_CONNECTIONS_S, _Connections(host).run),
        PeriodicTask("files", SWEEP_FILES_S, _Files(host).run),
        PeriodicTask("flush", FLUSH_LOOK_S, _TimedFlush(host).run),
        PeriodicTask(
            "checkpoint",
            seconds("log.flush.offset.checkpoint.interval.ms") / 1000,
            _Checkpoint(host).run,
        ),
        PeriodicTask(
            "retention", seconds("log.retention.check.interval.ms") / 1000, _Retention(host).run
        ),
        PeriodicTask(
            "producers",
            seconds("producer.id.expiration.check.interval.ms") / 1000,
            _Producers(host).run,
        ),
    ]


class _Connections:
    """Ends idle connections, takes back memory."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        self._host.server.sweep()


class _Files:
    """Removes the files of deleted topics and segments, off the loop."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        if self._host.logs.waiting_removals:
            await self._host.offload(self._host.logs.sweep)


class _Checkpoint:
    """Writes recovery points and log starts, off the loop."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        await self._host.offload(self._host.logs.checkpoint, self._host.high_watermarks())


class _Directories:
    """Looks for log directories that have failed: what is led there must be led elsewhere."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        self._host.replication.resign_from_failed()


class _Watermarks:
    """Writes high watermarks, off the loop: a restart begins with what was committed before.

    The version of the metadata as well: nothing older is believed then.
    """

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        await self._host.offload(
            self._host.logs.checkpoint_watermarks, self._host.high_watermarks()
        )
        version = self._host.metadata.image.version
        await self._host.offload(self._host.logs.save_metadata_version, version)


class _TimedFlush:
    """`flush.ms`, closed segments (an unclean restart scans only what no flush has covered), and
    flushes that a full disk has refused."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        for log in self._host.logs.flush_due(self._host.clock.wall_ms()):
            replica = self._host.partitions.replica(log.topic, log.partition)
            if replica is not None and not self._host.flusher.is_flushing(replica):
                with suppress(StorageError):  # the directory is full, or offline and has said so
                    await self._host.flusher.flush(replica)


class _Retention:
    """Retires what retention no longer keeps; yields, so that many logs do not stall clients.

    Followers retire what is below the start that their leader has told: their own clock, which may
    be wrong, deletes nothing.

    Nothing is deleted at the first look after a jump of the clock.
    """

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host
        self._jumps = ClockJumps(host.clock, "retention")

    async def run(self) -> None:
        if self._jumps.has_jumped():
            return
        now_ms = self._host.clock.wall_ms()
        with suppress(StorageError):  # the directory is offline and has said so
            retention_ms = self._host.settings.integer("headrace.stray.log.retention.ms")
            self._host.logs.expire_strays(retention_ms)
        for number, log in enumerate(self._host.logs, start=1):
            if number % LOGS_PER_SLICE == 0:
                await asyncio.sleep(0)
            replica = self._host.partitions.replica(log.topic, log.partition)
            with suppress(StorageError):  # the log or its directory is offline and has said so
                if replica is not None and self._shrink(replica, log, now_ms):
                    replica.interrupt()

    @staticmethod
    def _shrink(replica: Replica, log: Log, now_ms: int) -> bool:
        """Whether segments were retired."""
        if log.log_start_offset == log.log_end_offset and not (log.is_loaded and log.size_bytes):
            return False  # an empty log need not be opened for this
        if isinstance(replica, SoleLeader):
            return replica.log.delete_old_segments(now_ms, replica.high_watermark) > 0
        # A follower that is not open has not heard of another start yet.
        return log.is_loaded and log.delete_old_segments(now_ms, is_follower=True) > 0


class _Producers:
    """Forgets producers that have been silent for `producer.id.expiration.ms`."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host
        self._jumps = ClockJumps(host.clock, "producers")

    async def run(self) -> None:
        if self._jumps.has_jumped():
            return
        now_ms = self._host.clock.wall_ms()
        expiration_ms = self._host.limits.producer_id_expiration_ms
        self._host.logs.expire_producers(now_ms, expiration_ms)
