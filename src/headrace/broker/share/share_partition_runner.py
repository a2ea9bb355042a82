"""Runs one share partition: its window, stored state, lock timer and waiting fetches.

Guarantees: an acknowledgement is answered after its change is stored, or with the reason why it
could not be stored. A lock expires on time. A waiting fetch is woken when records become available.
A leader that is fenced, or whose topic is deleted, stops at once; the next reader loads the state
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from headrace.broker.runtime.timers import Timer
from headrace.broker.share.share_dead_letters import DeadLetterQueue, DeadLetterQueueHost
from headrace.broker.share.share_state_persister import ShareStateHost, ShareStatePersister
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.share_state.share_state_shard import NO_OFFSET, ReadState, StateChange
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.errors import ErrorCode
from headrace.replication.sole_leader import SoleLeader
from headrace.share.errors import AcknowledgeError
from headrace.share.record_state import Acknowledgement
from headrace.share.share_partition import SharePartition
from headrace.share.share_rules import ShareRules
from headrace.share.start_offset import EARLIEST, reset_age_ms
from headrace.share.state_write import StateWrite
from headrace.storage.errors import StorageError

log = logging.getLogger(__package__)

RETRIES: Final = 8
FIRST_RETRY_S: Final = 0.05  # doubled each time: 13 s in all

COORDINATOR_UNAVAILABLE: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_FENCED: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
_END: Final = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class AcknowledgeOutcome(NamedTuple):
    """The result of an acknowledgement for one partition."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


DONE: Final = AcknowledgeOutcome()


class ShareGroupConfigs(Protocol):
    """The coordinators of this broker, which know the settings of groups."""

    def group_config(self, group_id: str) -> GroupConfig: ...


class SharePartitionHost(ShareStateHost, DeadLetterQueueHost, Protocol):
    """The part of the broker that share partitions use."""

    @property
    def coordinators(self) -> ShareGroupConfigs: ...


class ShareWaiter(Protocol):
    """A fetch that waits for available records."""

    def changed(self) -> None:
        """Records may be available, or the partition has stopped."""
        ...


class SharePartitionRunner:
    """One share partition on its leader."""

    def __init__(
        self,
        host: SharePartitionHost,
        key: SharePartitionKey,
        leader: SoleLeader,
        gone: Callable[[SharePartitionRunner], None],
    ) -> None:
        self.key = key
        self.leader = leader
        self.window: SharePartition | None = None
        self.failure: AcknowledgeOutcome | None = None
        """The reason why the share partition did not load; permanent."""
        self._host = host
        self._states = ShareStatePersister(host)
        self._gone = gone
        self._state_epoch = 0
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._waiters: dict[ShareWaiter, None] = {}  # in arrival order
        self._letters = DeadLetterQueue(host, self)
        leader.watch(self)

    @property
    def config(self) -> GroupConfig:
        return self._host.coordinators.group_config(self.key.group_id)

    def _rules(self) -> ShareRules:
        config = self.config
        return ShareRules(
            lock_ms=config.share_record_lock_duration_ms,
            max_deliveries=config.share_delivery_count_limit,
            max_locks=config.share_partition_max_record_locks,
            renew_enabled=config.share_renew_acknowledge_enable,
            dead_letters=bool(config.share_dead_letter_topic),
        )

    def now_ms(self) -> int:
        """The monotonic time in milliseconds, which locks use."""
        return int(self._host.clock.monotonic() * 1000)

    # --- loading --------------------------------------------------------------------------------

    def load(self, attempt: int = 0) -> None:
        """Reads the stored state; retries while the coordinator is unavailable."""
        reading = self._states.read(self.key, self.leader.epoch)

        def read(done: asyncio.Future[ReadState]) -> None:
            # Reads the exception even if no fetch waits, or asyncio reports it as never retrieved.
            error = None if done.cancelled() else done.exception()
            if self.failure is not None or done.cancelled():
                return
            if error is None:
                self._start(done.result())
            elif _is_unavailable(error) and attempt < RETRIES:
                delay_s = FIRST_RETRY_S * 2**attempt
                self._host.timers.call_later(delay_s, lambda: self.load(attempt + 1))
            else:
                self.end(_outcome_of(error))

        reading.add_done_callback(read)

    def _start(self, state: ReadState) -> None:
        try:
            start = state.start_offset
            if start == NO_OFFSET:
                start = self._first_offset()
            window = SharePartition(self._rules, start, state.batches)
            window.move_start(self.leader.log.log_start_offset)
        except StorageError as error:
            self.end(AcknowledgeOutcome(error.code, str(error)))
            return
        self._state_epoch = state.state_epoch
        self.window = window
        self._letters.add(window.take_dead_letters(), in_doubt=True)
        self._notify_waiters()

    def _first_offset(self) -> int:
        """The first offset according to `share.auto.offset.reset`."""
        strategy = self.config.share_auto_offset_reset
        stored = self.leader.log
        if strategy == EARLIEST:
            return stored.log_start_offset
        age_ms = reset_age_ms(strategy)
        if age_ms is not None:
            found = stored.offset_for_timestamp(self._host.clock.wall_ms() - age_ms)
            if found is not None:
                return min(found.offset, self.leader.high_watermark)
        return self.leader.high_watermark

    # --- members --------------------------------------------------------------------------------

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement]
    ) -> AcknowledgeOutcome | asyncio.Future[AcknowledgeOutcome]:
        """Stores the member's acknowledgements."""
        if self.window is None:
            return AcknowledgeOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            write = self.window.acknowledge(member, acknowledgements, self.now_ms())
        except AcknowledgeError as error:
            return AcknowledgeOutcome(error.code, error.message)
        if write is None:
            self.arm()
            return DONE
        return self._store(write)

    def release(self, member: str) -> None:
        """Releases the records of a member that has left."""
        write = self.window.release(member) if self.window is not None else None
        if write is not None:
            self._store(write)

    def _expire(self) -> None:
        self._timer = None
        if self.window is None or self.failure is not None:
            return
        write = self.window.expire(self.now_ms())
        if write is not None:
            self._store(write)
            self._notify_waiters()
        else:
            self.arm()

    def arm(self) -> None:
        """Sets the timer for the lock that expires next."""
        if self.window is None or self.failure is not None:
            return
        deadline_ms = self.window.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_at_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = deadline_ms
        # Slightly late rather than early: the clock's milliseconds are truncated.
        delay_s = (deadline_ms + 1) / 1000 - self._host.clock.monotonic()
        self._timer = self._host.timers.call_later(max(0.0, delay_s), self._expire)

    # --- storing --------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether dead letters are still being written."""
        return self._letters.is_busy

    async def archive(self, first: int, last: int) -> bool:
        """Archives records whose dead letters are committed; returns whether that was stored."""
        if self.window is None or self.failure is not None:
            return True
        write = self.window.copied(first, last)
        if write is None:
            return True
        outcome = self._store(write)
        if isinstance(outcome, asyncio.Future):
            outcome = await outcome
        return not outcome.code

    def _store(self, write: StateWrite) -> AcknowledgeOutcome | asyncio.Future[AcknowledgeOutcome]:
        change = StateChange(
            self._state_epoch,
            self.leader.epoch,
            write.start_offset,
            write.complete_count,
            write.batches,
        )
        refused: list[CoordinatorError] = []

        def refuse(error: CoordinatorError) -> bool:
            refused.append(error)
            return False

        answer = self._states.write(self.key, change, refuse)
        if not isinstance(answer, asyncio.Future):
            return self._stored(write, refused)
        stored: asyncio.Future[AcknowledgeOutcome] = self._host.loop.create_future()

        def finish(_: asyncio.Future[bool]) -> None:
            outcome = self._stored(write, refused)
            if not stored.done():
                stored.set_result(outcome)

        answer.add_done_callback(finish)
        return stored

    def _stored(self, write: StateWrite, refused: Sequence[CoordinatorError]) -> AcknowledgeOutcome:
        assert self.window is not None
        outcome = _outcome_of(refused[0]) if refused else DONE
        if outcome.code:
            log.warning(
                "cannot store the state of a share partition; the records keep their locks",
                extra={
                    "group": self.key.group_id,
                    "log": f"{self.leader.topic}-{self.leader.index}",
                    "error": outcome.message or outcome.code.name,
                },
            )
            self.window.failed(write)
            if outcome.code in _END:
                self.end(outcome)
        else:
            self.window.committed(write)
        self._notify_waiters()
        return outcome

    # --- waiting --------------------------------------------------------------------------------

    def watch(self, waiter: ShareWaiter) -> None:
        self._waiters[waiter] = None

    def unwatch(self, waiter: ShareWaiter) -> None:
        self._waiters.pop(waiter, None)

    def _notify_waiters(self) -> None:
        if self.window is not None and self.failure is None:
            self._letters.add(self.window.take_dead_letters())
        self.arm()
        for waiter in tuple(self._waiters):
            waiter.changed()

    def advanced(self, size_bytes: int) -> None:
        """Does nothing: waiting fetches listen for new records themselves."""

    def interrupted(self) -> None:
        """Handles a moved log start, lost leadership or a deleted topic."""
        if self.leader.closed:
            moved = self.key.topic_id in self._host.metadata.image.topics_by_id
            self.end(
                AcknowledgeOutcome(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER
                    if moved
                    else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
            )
        elif self.window is not None:
            self.window.move_start(self.leader.log.log_start_offset)
            self._notify_waiters()

    def end(self, outcome: AcknowledgeOutcome) -> None:
        """Stops this share partition: no more records are returned or acknowledged."""
        if self.failure is not None:
            return
        self.failure = outcome
        self.leader.unwatch(self)
        if self._timer is not None:
            self._timer.cancel()
        self._letters.stop()
        self._gone(self)
        for waiter in tuple(self._waiters):
            waiter.changed()


def _is_unavailable(error: BaseException) -> bool:
    return isinstance(error, CoordinatorError) and error.code in COORDINATOR_UNAVAILABLE


def _outcome_of(error: BaseException) -> AcknowledgeOutcome:
    """The outcome that a member gets for a coordinator error."""
    if not isinstance(error, CoordinatorError):
        return AcknowledgeOutcome(ErrorCode.UNKNOWN_SERVER_ERROR)
    if error.code in COORDINATOR_UNAVAILABLE:
        return AcknowledgeOutcome(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message or None)
    if error.code in _FENCED:
        return AcknowledgeOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message or None)
    if error.code in _END:
        return AcknowledgeOutcome(error.code, error.message or None)
    return AcknowledgeOutcome(ErrorCode.UNKNOWN_SERVER_ERROR, error.message or None)
