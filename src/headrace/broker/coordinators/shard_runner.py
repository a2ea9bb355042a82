"""Runs one loaded shard: its results are appended, replayed, committed and answered in order.

Guarantees: the records of a result are one batch, of which all records are appended or none. A
change that is not in the log is not in the shard. A request is answered only after the high
watermark has passed the records of its result and those of every earlier result. A shard that fails
to replay its own records is rebuilt from the log.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar, cast

from headrace.broker.partitions.flusher import Flusher
from headrace.broker.runtime.clock_jumps import ClockJumps
from headrace.broker.runtime.timers import KeyedTimers, Timer, Timers
from headrace.clock import Clock
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import (
    CancelTimer,
    CoordinatorResult,
    Deferred,
    PreparedRecords,
    ProducerIdentity,
    SetTimer,
)
from headrace.coordinator.common.shard import Shard
from headrace.protocol.errors import ErrorCode
from headrace.records.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from headrace.records.codec import Codec
from headrace.records.record import recompress
from headrace.records.small_batch_builder import plain_records, seal_plain_batch
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import StorageError
from headrace.storage.state.producers import BatchOrigin

log = logging.getLogger(__package__)

S = TypeVar("S", bound=Shard)
R = TypeVar("R")

# An attribute of an enum class costs ten times as much as a global; this is read per request.
NOT_COMPRESSED: Final = Codec.NONE
RETRY_TIMER_S: Final = 0.5  # as in Kafka: after a timer's records were refused
AFTER_JUMP_S: Final = 600.0  # grace period after a jump of the clock

# The error that a client of the coordinator gets for an error of the partition.
_CODES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(error: BaseException) -> CoordinatorError:
    """Converts any exception, also an unexpected one, into the error that the client gets."""
    if isinstance(error, CoordinatorError):
        return error
    if isinstance(error, StorageError):
        return CoordinatorError(_CODES.get(error.code, error.code), str(error))
    log.error(
        "unexpected error in a coordinator; the client gets UNKNOWN_SERVER_ERROR", exc_info=error
    )
    return CoordinatorError(
        ErrorCode.UNKNOWN_SERVER_ERROR, "unexpected error in the coordinator; see the broker's log"
    )


def _too_few_in_sync() -> CoordinatorError:
    return CoordinatorError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas of the coordinator's log are in sync"
    )


class ShardRunnerOwner(Protocol):
    """The part of a coordinator that its shard runners use."""

    timers: Timers
    flusher: Flusher
    codec: Codec
    clock: Clock
    commit_timeout_s: float

    def now_ms(self) -> int: ...

    def perform(self, index: int, effect: object) -> None:
        """Starts an effect of a committed result."""
        ...

    def reload_shard(self, index: int) -> None:
        """Reloads the shard: its state differs from its log."""
        ...


class _Uncommitted(NamedTuple):
    """A result whose records the high watermark has not passed."""

    end_offset: int
    result: CoordinatorResult[object]
    answer: Deferred[object]
    deadline: float  # on the broker's clock; then the request gets a retriable error


class ShardRunner(Generic[S]):
    """A shard, its leader, its timers, and the results that wait for their commit."""

    __slots__ = (
        "_codec",
        "_deadline",
        "_flusher",
        "_gone",
        "_jumps",
        "_now_ms",
        "_owner",
        "_timers",
        "_uncommitted",
        "leader",
        "shard",
    )

    def __init__(self, shard: S, leader: SoleLeader, owner: ShardRunnerOwner) -> None:
        self.shard = shard
        self.leader = leader
        self._owner = owner
        self._codec = owner.codec
        self._now_ms = owner.now_ms
        self._jumps = ClockJumps(owner.clock, f"{leader.topic}-{leader.index}")
        self._flusher = owner.flusher
        self._timers = KeyedTimers(owner.timers, self._timed_out)
        self._uncommitted: deque[_Uncommitted] = deque()
        self._deadline: Timer | None = None
        self._gone = False  # late callbacks must not write to the log for this shard

    # --- results --------------------------------------------------------------------------------

    def run(
        self, decide: Callable[[S, int], CoordinatorResult[R]]
    ) -> R | CoordinatorError | Deferred[R]:
        """Runs one request. Returns the answer, or a deferred one; an error means no change."""
        now_ms = self._now_ms()
        try:
            result = decide(self.shard, now_ms)
        except CoordinatorError as error:
            return error
        except Exception as error:
            return coordinator_error(error)
        # Unpacked once: this runs for every heartbeat.
        answer, changes, completions, timers, effects, _, _ = result
        if changes:
            failed = self._append_result(result, now_ms)
            if failed is not None:
                return failed
            leader = self.leader
            uncommitted = leader.high_watermark < leader.log.log_end_offset
        else:
            uncommitted = False
        if timers:
            self._set_timers(timers)
        if uncommitted or self._uncommitted:
            return self._defer_answer(result, flush=bool(changes))
        if completions or effects:
            self._complete_result(result)
        return answer

    def store(
        self, records: PreparedRecords, timers: Sequence[SetTimer], now_ms: int
    ) -> CoordinatorError | Deferred[None] | None:
        """Stores a result that consists only of records: None if they are committed, otherwise a
        deferred answer; an error means no change."""
        leader = self.leader
        count = records.count
        try:
            if not leader.enough_in_sync:
                return _too_few_in_sync()
            if self._codec is NOT_COMPRESSED:
                offset = leader.append_plain_records(records.payload, count, now_ms)
            else:
                offset = self._append_compressed(records.payload, count, now_ms, None)
        except Exception as error:
            return coordinator_error(error)
        try:
            records.replay(offset)
        except Exception as error:
            self._owner.reload_shard(leader.index)
            return coordinator_error(error)
        for key, delay_ms in timers:
            self._timers.set(key, delay_ms / 1000)
        if self._uncommitted or leader.high_watermark < offset + count:
            return self._defer_answer(CoordinatorResult[None](None), flush=True)
        return None

    def _append_result(self, result: CoordinatorResult[R], now_ms: int) -> CoordinatorError | None:
        """Appends and replays the changes; an error means no change."""
        leader = self.leader
        if not leader.enough_in_sync:
            refused = _too_few_in_sync()
            self._roll_back(result, refused)
            return refused
        _, changes, _, _, _, producer, _ = result
        try:
            encode = self.shard.format.encode
            payload, count = plain_records([encode(one) for one in changes]), len(changes)
            if self._codec is not NOT_COMPRESSED:
                offset = self._append_compressed(payload, count, now_ms, producer)
            elif producer is None:
                offset = leader.append_plain_records(payload, count, now_ms)
            else:
                offset = leader.append_plain_records(
                    payload, count, now_ms, producer.producer_id, producer.epoch
                )
        except Exception as error:
            refused = coordinator_error(error)
            self._roll_back(result, refused)
            return refused
        try:
            replay = self.shard.replay
            for change in changes:
                replay(offset, change, producer)
                offset += 1
        except Exception as error:
            failed = coordinator_error(error)
            for completion in result.completions:
                completion.deferred.complete(failed)
            self._owner.reload_shard(leader.index)
            return failed
        return None

    def _append_compressed(
        self, payload: bytes, count: int, now_ms: int, producer: ProducerIdentity | None
    ) -> int:
        """With `offsets.topic.compression.codec`."""
        plain = seal_plain_batch(
            payload,
            count,
            now_ms,
            producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.epoch,
        )
        batch = recompress(plain, self._codec, max_bytes=len(plain))
        writable = memoryview(bytearray(batch))
        return self.leader.append(writable, now_ms, BatchOrigin.COORDINATOR).first_offset

    def _roll_back(self, result: CoordinatorResult[R], error: CoordinatorError) -> None:
        for completion in result.completions:
            completion.deferred.complete(error)
        if result.undo is None:
            return
        try:
            result.undo(error)
        except Exception:
            log.exception(
                "cannot roll back a coordinator result; the shard is reloaded",
                extra={"log": self.leader.log.name},
            )
            self._owner.reload_shard(self.leader.index)

    def _complete_result(self, result: CoordinatorResult[R]) -> None:
        """Called when the result is committed: completes requests and starts effects."""
        for completion in result.completions:
            completion.deferred.complete(completion.outcome)
        for effect in result.effects:
            self._owner.perform(self.leader.index, effect)

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Called after a marker for `producer` was appended."""
        try:
            self.shard.end_transaction(producer, committed=committed)
        except Exception:
            log.exception(
                "cannot apply a transaction marker; the shard is reloaded",
                extra={"log": self.leader.log.name},
            )
            self._owner.reload_shard(self.leader.index)
        else:
            self.defer_until_log_committed()

    # --- commits --------------------------------------------------------------------------------

    def defer_until_log_committed(self) -> None:
        """Defers answers until the uncommitted records of the log, which the shard has, are
        committed."""
        if self.leader.high_watermark < self.leader.log.log_end_offset:
            self._defer_answer(CoordinatorResult[object](None), flush=False)

    def _defer_answer(self, result: CoordinatorResult[R], *, flush: bool) -> Deferred[R]:
        """Defers the answer until the high watermark has passed all records that it may depend on.
        `flush`: the result has records, which may have to wait for the disk."""
        if not self._uncommitted:
            # An effect of the result that `advanced` has just finished may come here: watch once.
            self.leader.unwatch(self)
            self.leader.watch(self)
        # A deferred answer of the result also waits for the commit.
        answer = result.answer if isinstance(result.answer, Deferred) else Deferred[R]()
        end_offset = self.leader.log.log_end_offset
        timers = self._owner.timers
        deadline = timers.monotonic() + self._owner.commit_timeout_s
        self._uncommitted.append(
            _Uncommitted(
                end_offset,
                cast("CoordinatorResult[object]", result),
                cast("Deferred[object]", answer),
                deadline,
            )
        )
        if self._deadline is None:
            self._deadline = timers.call_later(
                self._owner.commit_timeout_s, self._fail_late_commits
            )
        if flush and self.leader.flush_pending:
            self._flusher.flush(self.leader).add_done_callback(self._flushed)
        return answer

    def advanced(self, size_bytes: int) -> None:
        """Called when the high watermark has moved."""
        while self._uncommitted and self._uncommitted[0].end_offset <= self.leader.high_watermark:
            _, result, answer, _ = self._uncommitted.popleft()
            self._complete_result(result)
            if answer is not result.answer:
                answer.complete(result.answer)
        if not self._uncommitted:
            self.leader.unwatch(self)

    def _fail_late_commits(self) -> None:
        """The replicas are slow or missing: requests get a retriable error; the records stay."""
        self._deadline = None
        now = self._owner.timers.monotonic()
        # A client that gets its answer may send its next request at once.
        for _, result, answer, deadline in tuple(self._uncommitted):
            if deadline > now:
                self._deadline = self._owner.timers.call_later(
                    deadline - now, self._fail_late_commits
                )
                break
            if answer is not result.answer:
                answer.complete(
                    CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the commit timed out")
                )

    def interrupted(self) -> None:
        """Does nothing: deleted topics are handled when the metadata changes."""

    def _flushed(self, done: "asyncio.Future[None]") -> None:
        error = done.exception()
        if error is not None and not self._gone:
            # The log is offline. The replayed records may be lost; no client has an answer yet.
            log.error(
                "cannot flush a coordinator's records; the shard is reloaded",
                extra={"log": self.leader.log.name, "error": str(error)},
            )
            self._owner.reload_shard(self.leader.index)

    # --- timers ---------------------------------------------------------------------------------

    def _set_timers(self, timers: Sequence[SetTimer | CancelTimer]) -> None:
        for timer in timers:
            if timer.__class__ is SetTimer:
                self._timers.set(timer.key, timer.delay_ms / 1000)
            else:
                self._timers.cancel(timer.key)

    def _timed_out(self, key: Hashable) -> None:
        if key in self.shard.expirations and self._jumps.check_for_jump():
            self._timers.set(key, AFTER_JUMP_S)
            return
        outcome = self.run(lambda shard, now_ms: shard.on_timeout(key, now_ms))
        if isinstance(outcome, CoordinatorError) and not self._gone:
            self._timers.set(key, RETRY_TIMER_S)

    # --- the end --------------------------------------------------------------------------------

    def retire(self, error: CoordinatorError) -> None:
        """Retires the shard: requests that wait for other clients fail, pending commits
        continue."""
        self._gone = True
        self._timers.clear()
        try:
            self.shard.unload(error)
        except Exception:
            log.exception(
                "cannot unload coordinator shard",
                extra={"topic": self.leader.topic, "partition": self.leader.index},
            )

    def unload(self, error: CoordinatorError) -> None:
        """Unloads the shard; pending commits fail with NOT_COORDINATOR."""
        self.retire(error)
        if self._deadline is not None:
            self._deadline.cancel()
        self.leader.unwatch(self)
        uncommitted, self._uncommitted = self._uncommitted, deque()
        for _, result, answer, _ in uncommitted:
            for completion in result.completions:
                completion.deferred.complete(error)
            answer.complete(error)
