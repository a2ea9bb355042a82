"""Writes the dead letters of share groups (KIP-1191).

Guarantees: a record is archived only after its dead letter is committed in the dead-letter topic,
on this broker or another. A failed write is retried until it succeeds, and the reason is logged.
After a crash or a leader change, the new leader checks whether the dead letters of pending records
exist already, so each is written once. If the group's dead-letter topic is removed from its
configuration, pending records are archived without a dead letter.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.share.dlq_dedup import last_written
from headrace.broker.share.dlq_partition import (
    DlqHost,
    DlqPartition,
    NotWritten,
    find_dlq_partition,
)
from headrace.controller.topic_changes import NewTopic
from headrace.protocol.errors import ErrorCode
from headrace.records.errors import RecordError
from headrace.records.record import iter_records
from headrace.share.dead_letter_format import Original, RecordOrigin, first_batch, topic_problem
from headrace.share.fetched_batches import whole_batches
from headrace.share.record_state import RejectedRecord
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    from headrace.broker.metadata.standalone_metadata import Metadata
    from headrace.broker.runtime.timers import Timers
    from headrace.cluster.effective_config import EffectiveConfig
    from headrace.coordinator.group.group_config import GroupConfig
    from headrace.coordinator.share_state.stored_state import SharePartitionKey
    from headrace.replication.sole_leader import SoleLeader

log = logging.getLogger(__package__)

ENABLE: Final = "errors.deadletterqueue.group.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
READ_BYTES: Final = 1 << 20  # read from the source log at a time
MAX_DECOMPRESSED_BYTES: Final = 16 << 20  # limit for one source batch; larger ones are not copied


FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 30.0


class DeadLetterHost(DlqHost, Protocol):
    """The part of the broker that the dead-letter writer uses."""

    metadata: Metadata

    @property
    def effective(self) -> EffectiveConfig: ...


class DeadLetterQueueHost(DeadLetterHost, Protocol):
    """The part of the broker that a queue uses."""

    timers: Timers


class DeadLetterSource(Protocol):
    """The share partition whose records are rejected."""

    key: SharePartitionKey
    leader: SoleLeader

    @property
    def config(self) -> GroupConfig: ...


class ArchivingSource(DeadLetterSource, Protocol):
    """A share partition that archives records once their dead letters are committed."""

    async def archive(self, first: int, last: int) -> bool: ...


class DeadLetterQueue:
    """The dead letters of one share partition, written in order."""

    def __init__(self, host: DeadLetterQueueHost, live: ArchivingSource) -> None:
        self._host = host
        self._live = live
        self._waiting: deque[RejectedRecord] = deque()
        self._task: asyncio.Task[None] | None = None
        self._in_doubt = False
        self._written: frozenset[int] = frozenset()

    @property
    def is_busy(self) -> bool:
        return self._task is not None

    def add(self, letters: Iterable[RejectedRecord], *, in_doubt: bool = False) -> None:
        """Adds records; with `in_doubt`, their dead letters may have been written already."""
        before = len(self._waiting)
        self._waiting.extend(letters)
        self._in_doubt |= in_doubt and len(self._waiting) > before
        if self._waiting and self._task is None:
            self._task = self._host.loop.create_task(self._write_waiting())
            self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Stops writing; the next leader finds the pending records in the stored state."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        if task.exception() is not None:
            log.error(
                "unexpected error while writing dead letters; they wait until the share partition "
                "is loaded again",
                extra=self._log_fields(),
                exc_info=task.exception(),
            )
        else:
            self.add(())  # records added since the last pass

    async def _write_waiting(self) -> None:
        writer = ShareDeadLetters(self._host)
        pause_s = FIRST_PAUSE_S
        while self._waiting:
            letter = self._waiting[0]
            try:
                if self._in_doubt:
                    self._written = await writer.written(self._live)
                    self._in_doubt = False
                known = _last_known_offset(letter, self._written)
                last = known if known is not None else await self._write(writer, letter)
                await self._archive(letter.first, last)
            except NotWritten as error:
                log.warning(
                    "cannot write a dead letter, retrying in %g s",
                    pause_s,
                    extra=self._log_fields() | {"error": str(error)},
                )
                await self._host.timers.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            pause_s = FIRST_PAUSE_S
            self._waiting.popleft()
            if last < letter.last:
                self._waiting.appendleft(letter._replace(first=last + 1))
        self._written = frozenset()  # records rejected from now on have no dead letter yet

    async def _write(self, writer: ShareDeadLetters, letter: RejectedRecord) -> int:
        behind = min((at for at in self._written if at > letter.first), default=letter.last + 1)
        self._in_doubt = True  # until the response arrives
        last = await writer.write(self._live, letter._replace(last=min(letter.last, behind - 1)))
        self._in_doubt = False
        return last

    async def _archive(self, first: int, last: int) -> None:
        """Retries until the change is stored: the dead letter must not be written again."""
        pause_s = FIRST_PAUSE_S
        while not await self._live.archive(first, last):
            await self._host.timers.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _log_fields(self) -> dict[str, object]:
        source = self._live
        return {
            "group": source.key.group_id,
            "topic": source.leader.topic,
            "partition": source.leader.index,
        }


def _last_known_offset(letter: RejectedRecord, written: frozenset[int]) -> int | None:
    """The last of the leading offsets that are written; None if the first one is not."""
    last = letter.first - 1
    while last < letter.last and last + 1 in written:
        last += 1
    return last if last >= letter.first else None


class ShareDeadLetters:
    """Writes records of share partitions to the dead-letter topics of their groups."""

    def __init__(self, host: DeadLetterHost) -> None:
        self._host = host

    async def write(self, live: DeadLetterSource, letter: RejectedRecord) -> int:
        """Writes as many dead letters as fit in one batch; returns the offset of the last one.

        Returns once they are committed or no longer wanted; raises NotWritten.
        """
        name = live.config.share_dead_letter_topic
        if not name:
            return letter.last
        destination = await self._destination(name, live.key.partition)
        now_ms = self._host.clock.wall_ms()
        limit = self._host.effective.topic_values(name)[MAX_MESSAGE_BYTES]
        assert isinstance(limit, int)
        try:
            originals = self._original_records(live, letter)
        except StorageError as error:
            raise NotWritten(f"{live.leader.topic}: {error}") from error
        last, batch = first_batch(_origin(live), letter, originals, now_ms=now_ms, max_bytes=limit)
        await destination.append(batch)
        return last

    async def written(self, live: DeadLetterSource) -> frozenset[int]:
        """The offsets of this share partition's last dead letters; raises NotWritten."""
        name = live.config.share_dead_letter_topic
        if not name or name not in self._host.metadata.image.topics:
            return frozenset()
        return await last_written(await self._destination(name, live.key.partition), _origin(live))

    async def _destination(self, name: str, source_partition: int) -> DlqPartition:
        effective = self._host.effective
        topics = self._host.metadata.image.topics
        exists = name in topics
        enabled = exists and effective.topic_values(name)[ENABLE] is True
        prefix = str(effective.broker_value(PREFIX) or "")
        problem = topic_problem(name, prefix, exists=exists, enabled=enabled)
        if problem is not None:
            raise NotWritten(problem)
        if not exists:
            if effective.broker_value(AUTO_CREATE) is not True:
                raise NotWritten(f"dead-letter topic {name} does not exist: create it")
            await self._create_topic(name)
        topic = self._host.metadata.image.topics.get(name)
        if topic is None:
            raise NotWritten(f"dead-letter topic {name} is being created")
        return find_dlq_partition(self._host, name, source_partition % len(topic.partitions))

    async def _create_topic(self, name: str) -> None:
        new = NewTopic(name, configs=[(ENABLE, "true")])
        results = await self._host.metadata.create_topics([new])
        error = results[0].error
        if error.code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise NotWritten(f"dead-letter topic {name} was not created: {error.message}")

    def _original_records(
        self, live: DeadLetterSource, letter: RejectedRecord
    ) -> dict[int, Original]:
        """The next original records, if the group wants them and the log still has them."""
        if not live.config.share_dead_letter_copies:
            return {}
        found: dict[int, Original] = {}
        stored = live.leader.log
        offset = max(letter.first, stored.log_start_offset)
        if offset <= letter.last:
            data = memoryview(stored.read(offset, max_bytes=READ_BYTES).data)
            for at, header in whole_batches(data):
                if header.base_offset <= letter.last and not header.is_control:
                    found.update(_records(data[at : at + header.size], letter))
        return found


def _origin(live: DeadLetterSource) -> RecordOrigin:
    return RecordOrigin(live.key.group_id, live.leader.topic, live.key.partition)


def _records(batch: memoryview, letter: RejectedRecord) -> dict[int, Original]:
    try:
        return {
            record.offset: Original(record.key, record.value)
            for record in iter_records(batch, max_bytes=MAX_DECOMPRESSED_BYTES)
            if letter.first <= record.offset <= letter.last
        }
    except RecordError as error:
        log.warning(
            "cannot read a rejected record; its dead letter has no copy of it",
            extra={"error": str(error)},
        )
        return {}
