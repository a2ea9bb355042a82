"""The log cleaner: selects the dirtiest compacted logs, has them cleaned, swaps in the new
segments.

A worker process reads and writes segments. The event loop owns the logs and renames their files;
threads wait for the disk. A log that cannot be cleaned is not changed, and is listed in `status`.
The cleaner retries it after a restart of the broker, or after a repair if the log is damaged.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.runtime.environment import Environment
from headrace.broker.runtime.offload import Offload
from headrace.broker.runtime.worker import Worker, WorkerEnded
from headrace.clock import Clock
from headrace.cluster.effective_config import EffectiveConfig
from headrace.cluster.settings import BrokerSettings
from headrace.replication.replica import Replica
from headrace.storage.cleaning.cleaner_messages import (
    BYTES_PER_KEY,
    CleanedGroup,
    CleanedLog,
    CleaningFailed,
    CleaningJob,
    decode_report,
)
from headrace.storage.cleaning.log_to_clean import LogToClean
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import StorageError
from headrace.storage.files.log_dir_state import LogDirState
from headrace.storage.log.log import Log
from headrace.storage.log.log_compaction import (
    CleaningLimits,
    begin_swap,
    cleanable,
    cleaning_job,
    end_swap,
)
from headrace.storage.state.log_config import COMPACT

log = logging.getLogger(__package__)

WORKER: Final = "headrace.broker.maintenance.cleaner_worker"
LOGS_PER_SLICE: Final = 64
# After this many worker deaths over one log, the log is the likely cause.
MAX_DEATHS: Final = 3
MIN_READ_BYTES: Final = 64 << 10
# How often the scheduler calls the cleaner; the backoff setting may change between two calls.
MAX_INTERVAL_S: Final = 1.0
MIN_INTERVAL_S: Final = 0.02


class UncleanablePartition(NamedTuple):
    """A log that the cleaner skips, and the reason."""

    topic: str
    partition: int
    reason: str
    until_repaired: bool = False  # retried once the damage is repaired


class CleanerStatus(NamedTuple):
    """The work of the cleaner since the broker started."""

    last_pass_ms: int = -1
    cleaning: str | None = None
    logs_cleaned: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    uncleanable: tuple[UncleanablePartition, ...] = ()


class _Outdated(Exception):
    """The log has changed since the job was made."""


class _Postponed(Exception):
    """The machine lacks a resource for now, for example disk space."""


class LogCleanerHost(Protocol):
    """The part of the broker that the cleaner uses."""

    loop: asyncio.AbstractEventLoop
    environment: Environment
    clock: Clock
    offload: Offload
    settings: BrokerSettings
    partitions: PartitionTable

    @property
    def logs(self) -> LogManager: ...

    @property
    def effective(self) -> EffectiveConfig: ...


class LogCleaner:
    """The log cleaner of one broker; it cleans one log at a time."""

    def __init__(self, host: LogCleanerHost) -> None:
        self._host = host
        self._worker: Worker | None = None
        self._uncleanable: dict[tuple[bytes, int], UncleanablePartition] = {}
        self._deaths: dict[tuple[bytes, int], int] = {}
        self._postponed: dict[tuple[bytes, int], int] = {}  # the pass in which it was postponed
        self._passes = 0
        self._next_pass_s = host.clock.monotonic() + self._backoff_at_start_s
        self.status = CleanerStatus()

    @property
    def interval_s(self) -> float:
        """The interval at which `run` is called."""
        return min(max(self._backoff_at_start_s, MIN_INTERVAL_S), MAX_INTERVAL_S)

    @property
    def _backoff_at_start_s(self) -> float:
        return self._host.settings.integer("log.cleaner.backoff.ms") / 1000

    @property
    def worker_pid(self) -> int | None:
        """The pid of the current worker process."""
        return self._worker.pid if self._worker is not None else None

    def is_cleaning(self, cleaned: Log) -> bool:
        """Whether the cleaner is working on this log."""
        return self.status.cleaning == cleaned.name

    async def run(self) -> None:
        """Runs one pass, unless the last one ended less than `log.cleaner.backoff.ms` ago."""
        now_s = self._host.clock.monotonic()
        if now_s >= self._next_pass_s:
            await self.run_pass()
            now_s = self._host.clock.monotonic()
            self._next_pass_s = now_s + self._setting("log.cleaner.backoff.ms") / 1000

    async def run_pass(self) -> None:
        """Runs one pass over all logs: cleans the logs that are due, the dirtiest first.

        If the machine lacks a resource for one log, such as disk space, the other logs in that
        directory wait for the next pass. That pass starts with another log, which may need less.
        """
        if not self._setting("log.cleaner.threads"):
            return
        self.status = self.status._replace(last_pass_ms=self._host.clock.wall_ms())
        self._passes += 1
        waiting: set[LogDirState] = set()
        try:
            for replica in await self._due_replicas():
                if replica.log.directory not in waiting:
                    await self._try_to_clean(replica, waiting)
        finally:
            self.status = self.status._replace(cleaning=None)
            self._end_worker()

    # --- selection ------------------------------------------------------------------------------

    async def _due_replicas(self) -> list[Replica]:
        due: list[tuple[tuple[int, float], Replica]] = []
        hosted: set[tuple[bytes, int]] = set()
        for number, each in enumerate(self._host.logs, start=1):
            replica = self._candidate(each)
            if replica is None:
                continue
            hosted.add(_partition_key(replica))
            if number % LOGS_PER_SLICE == 0 or not replica.is_open:
                await asyncio.sleep(0)  # opening a log takes a while
            dirt = self._cleanable_part(replica)
            if dirt is not None:
                last_pass = self._postponed.get(_partition_key(replica), 0)
                due.append(((-last_pass, dirt.dirty_ratio), replica))
        for known in (self._uncleanable, self._deaths, self._postponed):
            for key in [each for each in known if each not in hosted]:
                del known[key]
        self.status = self.status._replace(uncleanable=tuple(self._uncleanable.values()))
        return [replica for _, replica in sorted(due, key=lambda each: each[0], reverse=True)]

    def _candidate(self, each: Log) -> Replica | None:
        """The replica of the log, if the log is compacted and has records."""
        hosted = self._host.partitions.by_name.get(each.topic)
        if hosted is None or COMPACT not in hosted.config.cleanup_policy:
            return None
        if each.log_start_offset == each.log_end_offset:
            return None
        return hosted.replica(each.partition)

    def _cleanable_part(self, replica: Replica) -> LogToClean | None:
        """The part of the log that is to be cleaned; None if the log is not due."""
        if replica.closed or self._host.logs.futures.get(replica.topic, replica.index):
            # Compaction may remove a tombstone before the copy has it: the copy would keep the
            # record that the tombstone deletes.
            return None
        try:
            opened = replica.log
            given_up = self._uncleanable.get(_partition_key(replica))
            if given_up is not None and (not given_up.until_repaired or opened.is_damaged):
                return None
            self._uncleanable.pop(_partition_key(replica), None)
            cleaned_to = self._host.logs.cleaner_offset(opened)
            now_ms = self._host.clock.wall_ms()
            dirt = cleanable(opened, now_ms, cleaned_to, replica.last_stable_offset)
        except StorageError:
            return None  # offline, which is already logged
        return dirt if dirt.is_due(opened.config) else None

    # --- cleaning -------------------------------------------------------------------------------

    async def _try_to_clean(self, replica: Replica, waiting: set[LogDirState]) -> None:
        dirt = self._cleanable_part(replica)
        if dirt is None:
            return
        name = replica.log.name
        self.status = self.status._replace(cleaning=name)
        try:
            await self._clean(replica, dirt)
            self._postponed.pop(_partition_key(replica), None)
        except _Postponed as postponed:
            self._postponed[_partition_key(replica)] = self._passes
            waiting.add(replica.log.directory)
            log.warning(
                "cannot compact log for now; it is retried in a later pass",
                extra={"log": name, "reason": str(postponed)},
            )
        except (_Outdated, StorageError) as error:
            log.info(
                "stopped compacting log; the next pass retries",
                extra={"log": name, "reason": str(error)},
            )
            self._end_worker()  # the worker may still be busy with the job
        except WorkerEnded as error:
            self._end_worker()
            key = _partition_key(replica)
            self._deaths[key] = deaths = self._deaths.get(key, 0) + 1
            log.warning(
                "compaction worker exited; the next pass starts a new one",
                extra={"log": name, "reason": str(error), "deaths": deaths},
            )
            if deaths >= MAX_DEATHS:
                self._mark_uncleanable(
                    replica, f"{deaths} compaction workers exited while cleaning this log"
                )

    async def _clean(self, replica: Replica, dirt: LogToClean) -> None:
        cleaned = replica.log
        now_ms = self._host.clock.wall_ms()
        job = cleaning_job(cleaned, dirt, now_ms, self._limits())
        if self._host.logs.cleaner_offset(cleaned) is None:
            # Before the first segment is replaced: with this offset, recovery expects gaps in the
            # log.
            await self._host.offload(self._host.logs.save_cleaner_offset, cleaned, dirt.first_dirty)
        if self._worker is None:
            self._worker = self._host.environment.worker(
                self._host.loop, self._host.offload, WORKER
            )
        worker = self._worker
        await worker.send(job.encode())
        while True:
            match decode_report(await worker.receive()):
                case CleanedGroup() as group:
                    await self._swap(cleaned, group, job)
                case CleanedLog() as done:
                    if cleaned.failure is not None:
                        raise cleaned.failure
                    await self._host.offload(
                        self._host.logs.save_cleaner_offset, cleaned, done.next_dirty
                    )
                    self._count_cleaned(cleaned, job, done)
                    return
                case CleaningFailed(reason, is_transient, damaged_at):
                    if replica.closed:
                        raise _Outdated(f"{cleaned.name} was deleted")
                    if is_transient:
                        raise _Postponed(reason)
                    if damaged_at >= 0:
                        with suppress(StorageError):  # the read records the damage in the log
                            cleaned.read(damaged_at, max_bytes=1)
                    self._mark_uncleanable(replica, reason, until_repaired=cleaned.is_damaged)
                    return

    async def _swap(self, cleaned: Log, group: CleanedGroup, job: CleaningJob) -> None:
        """Swaps in a cleaned group; after a crash in between, recovery of the log completes the
        swap."""
        if group.unchanged:
            return
        swap = begin_swap(cleaned, group, job)
        if swap is None:
            raise _Outdated(f"the segments of {cleaned.name} have changed")
        try:
            await self._host.offload(swap.prepare)
            while cleaned.failure is None and swap.step():
                await self._host.offload(swap.sync)
        except OSError as error:
            if cleaned.failure is None:
                raise cleaned.directory.fault(error, f"compacting {cleaned.name}") from error
        if cleaned.failure is not None:
            raise cleaned.failure  # for example, the log was deleted meanwhile
        end_swap(cleaned, swap)

    def _limits(self) -> CleaningLimits:
        memory = self._setting("log.cleaner.dedupe.buffer.size")
        load = self._setting("log.cleaner.io.buffer.load.factor")
        return CleaningLimits(
            max_keys=max(1, int(memory * load) // BYTES_PER_KEY),
            read_bytes=max(int(self._setting("log.cleaner.io.buffer.size")), MIN_READ_BYTES),
            max_bytes_per_second=max(1.0, self._setting("log.cleaner.io.max.bytes.per.second")),
        )

    def _setting(self, name: str) -> float:
        value = self._host.effective.broker_value(name)
        assert isinstance(value, int | float)
        return value

    # --- reporting ------------------------------------------------------------------------------

    def _count_cleaned(self, cleaned: Log, job: CleaningJob, done: CleanedLog) -> None:
        status = self.status
        self.status = status._replace(
            logs_cleaned=status.logs_cleaned + 1,
            bytes_read=status.bytes_read + done.bytes_read,
            bytes_written=status.bytes_written + done.bytes_written,
        )
        log.debug(
            "compacted log",
            extra={
                "log": cleaned.name,
                "from_offset": job.first_dirty,
                "to_offset": done.next_dirty,
                "bytes_read": done.bytes_read,
                "bytes_written": done.bytes_written,
            },
        )

    def _mark_uncleanable(
        self, replica: Replica, reason: str, *, until_repaired: bool = False
    ) -> None:
        self._uncleanable[_partition_key(replica)] = UncleanablePartition(
            replica.topic, replica.index, reason, until_repaired
        )
        self.status = self.status._replace(uncleanable=tuple(self._uncleanable.values()))
        log.error(
            "cannot compact log; it grows until the broker restarts",
            extra={"topic": replica.topic, "partition": replica.index, "reason": reason},
        )

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


def _partition_key(replica: Replica) -> tuple[bytes, int]:
    return replica.topic_id, replica.index
