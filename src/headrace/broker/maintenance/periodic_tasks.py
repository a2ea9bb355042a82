"""The periodic tasks of one broker, with their intervals from the settings."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.access.access_control import AccessControl
from headrace.broker.maintenance.full_directory_log import DirectoryState, FullDirectoryLog
from headrace.broker.maintenance.log_cleaner import LogCleaner
from headrace.broker.maintenance.task_scheduler import PeriodicTask
from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.broker.network.broker_limits import BrokerLimits
from headrace.broker.network.server import Server
from headrace.broker.partitions.flusher import Flusher
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.runtime.clock_jumps import ClockJumps
from headrace.broker.runtime.offload import Offload
from headrace.clock import Clock
from headrace.cluster.settings import BrokerSettings
from headrace.log_event import write_events
from headrace.replication.replica import Replica
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import StorageError
from headrace.storage.files.free_space import free_bytes
from headrace.storage.files.log_dir_state import LogDirState
from headrace.storage.log.log import Log

if TYPE_CHECKING:
    from headrace.broker.access.delegation_tokens import DelegationTokens

logger = logging.getLogger(__package__)  # `log` is a partition's

SWEEP_CONNECTIONS_S: Final = 5.0
SWEEP_FILES_S: Final = 1.0
DIRECTORY_CHECK_S: Final = 0.5  # how long a failed disk may keep its leaders
TLS_CHECK_S: Final = 5.0  # how late a new certificate may be used
FLUSH_CHECK_S: Final = 0.5  # how late a flush by flush.ms may come
LOGS_PER_SLICE: Final = 64


class FailedReplicas(Protocol):
    """The replicas of this broker, some of which may be on a disk that has failed."""

    def resign_from_failed(self) -> None: ...


class ReloadsStores(Protocol):
    """The TLS listeners of this broker."""

    async def reload_changed_files(self) -> None: ...


class PeriodicTasksHost(Protocol):
    """The part of the broker that the periodic tasks use."""

    access: AccessControl
    clock: Clock
    offload: Offload
    settings: BrokerSettings
    server: Server
    partitions: PartitionTable
    flusher: Flusher
    cleaner: LogCleaner
    limits: BrokerLimits
    tokens: DelegationTokens | None

    @property
    def tls(self) -> ReloadsStores | None: ...

    @property
    def logs(self) -> LogManager: ...

    @property
    def is_member(self) -> bool: ...

    @property
    def is_controller(self) -> bool: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def replication(self) -> FailedReplicas: ...

    def high_watermarks(self) -> dict[str, int]: ...


def periodic_tasks(host: PeriodicTasksHost) -> list[PeriodicTask]:
    """The tasks of one broker. Each name continues the sentence "cannot <name>" in log lines."""
    tasks = _common_tasks(host)
    if host.is_member:
        every_s = host.settings.integer("replica.high.watermark.checkpoint.interval.ms") / 1000
        tasks.append(
            PeriodicTask("write the high watermark checkpoint", every_s, _Watermarks(host).run)
        )
        tasks.append(
            PeriodicTask("check log directories", DIRECTORY_CHECK_S, _Directories(host).run)
        )
    if host.tls is not None:
        tls = host.tls
        tasks.append(PeriodicTask("reload TLS stores", TLS_CHECK_S, tls.reload_changed_files))
    if host.settings.boolean("log.cleaner.enable"):
        tasks.append(PeriodicTask("clean logs", host.cleaner.interval_s, host.cleaner.run))
    if host.tokens is not None:
        from headrace.broker.maintenance.token_expiry_task import token_expiry_tasks

        tasks += token_expiry_tasks(host, host.tokens)
    return tasks


def _common_tasks(host: PeriodicTasksHost) -> list[PeriodicTask]:
    seconds = host.settings.integer
    return [
        PeriodicTask("close idle connections", SWEEP_CONNECTIONS_S, _Connections(host).run),
        PeriodicTask("delete files", SWEEP_FILES_S, _Files(host).run),
        PeriodicTask("flush logs", FLUSH_CHECK_S, _TimedFlush(host).run),
        PeriodicTask(
            "write the recovery point checkpoint",
            seconds("log.flush.offset.checkpoint.interval.ms") / 1000,
            _Checkpoint(host).run,
        ),
        PeriodicTask(
            "apply retention",
            seconds("log.retention.check.interval.ms") / 1000,
            _Retention(host).run,
        ),
        PeriodicTask(
            "expire producer ids",
            seconds("producer.id.expiration.check.interval.ms") / 1000,
            _Producers(host).run,
        ),
    ]


class _Connections:
    """Closes idle connections, releases memory, and logs how many lines about clients that flooded
    the log were left out."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        self._host.server.sweep()
        self._host.server.report_left_out()
        self._host.access.audit.report_left_out()


class _Files:
    """Deletes the files of deleted topics and segments, off the event loop; logs full disks."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host
        self._full = FullDirectoryLog()

    async def run(self) -> None:
        states = [_directory_state(each.state) for each in self._host.logs.directories]
        write_events(logger, self._full.update(states, self._host.clock.monotonic()))
        if self._host.logs.pending_deletes:
            await self._host.offload(self._host.logs.sweep)


def _directory_state(state: LogDirState) -> DirectoryState:
    full = sorted(state.full)
    free = free_bytes(state.path) if state.refused_appends else None
    return DirectoryState(state.path, state.refused_appends, full, free)


class _Checkpoint:
    """Writes recovery points and log start offsets, off the event loop."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        await self._host.offload(self._host.logs.checkpoint, self._host.high_watermarks())


class _Directories:
    """Finds failed log directories; the broker resigns as leader of their partitions."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        self._host.replication.resign_from_failed()


class _Watermarks:
    """Writes high watermarks, off the event loop, so that a restart knows the committed records.

    Also writes the metadata version: after a restart the broker refuses older metadata.
    """

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        await self._host.offload(
            self._host.logs.checkpoint_high_watermarks, self._host.high_watermarks()
        )
        version = self._host.metadata.image.version
        await self._host.offload(self._host.logs.save_metadata_version, version)


class _TimedFlush:
    """Flushes logs: those due by `flush.ms`, closed segments (an unclean restart then scans less),
    and logs whose last flush failed because the disk was full."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host

    async def run(self) -> None:
        for log in self._host.logs.logs_due_for_flush(self._host.clock.wall_ms()):
            replica = self._host.partitions.replica(log.topic, log.partition)
            if replica is not None and not self._host.flusher.is_flushing(replica):
                with suppress(StorageError):  # full, or offline, which is already logged
                    await self._host.flusher.flush(replica)


class _Retention:
    """Deletes segments by retention; yields between slices, so that many logs do not stall clients.

    A follower deletes only segments below its leader's log start offset: the follower's own clock
    may be wrong.

    After a clock jump, the first run deletes nothing.
    """

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host
        self._jumps = ClockJumps(host.clock, "retention")

    async def run(self) -> None:
        if self._jumps.check_for_jump():
            return
        now_ms = self._host.clock.wall_ms()
        with suppress(StorageError):  # offline, which is already logged
            retention_ms = self._host.settings.integer("headrace.stray.log.retention.ms")
            self._host.logs.expire_strays(retention_ms)
        for number, log in enumerate(self._host.logs, start=1):
            if number % LOGS_PER_SLICE == 0:
                await asyncio.sleep(0)
            replica = self._host.partitions.replica(log.topic, log.partition)
            with suppress(StorageError):  # offline, which is already logged
                if replica is not None and self._delete_old_segments(replica, log, now_ms):
                    replica.interrupt()

    @staticmethod
    def _delete_old_segments(replica: Replica, log: Log, now_ms: int) -> bool:
        """Deletes old segments; returns whether there were any."""
        if log.log_start_offset == log.log_end_offset and not (log.is_loaded and log.size_bytes):
            return False  # an empty log stays closed
        if isinstance(replica, SoleLeader):
            return replica.log.delete_old_segments(now_ms, replica.high_watermark) > 0
        # A closed follower has not received a new log start offset from its leader.
        return log.is_loaded and log.delete_old_segments(now_ms, is_follower=True) > 0


class _Producers:
    """Expires producers that have been idle for `producer.id.expiration.ms`."""

    def __init__(self, host: PeriodicTasksHost) -> None:
        self._host = host
        self._jumps = ClockJumps(host.clock, "producers")

    async def run(self) -> None:
        if self._jumps.check_for_jump():
            return
        now_ms = self._host.clock.wall_ms()
        expiration_ms = self._host.limits.producer_id_expiration_ms
        self._host.logs.expire_producers(now_ms, expiration_ms)
