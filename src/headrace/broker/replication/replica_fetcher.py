"""Copies partitions that other brokers lead: one connection and one session per broker.

A fetch names only the partitions whose position has changed (KIP-227) and waits at the leader for
records. A partition that is added while a fetch waits is named in a second one, which ends the
wait.

Guarantees: records are accepted only in the response to the fetch that last named their partition.
A log is truncated by leader epochs, never by the watermark. Records that must be flushed are on
disk before the next fetch acknowledges them. A partition with errors waits, longer each time, and
delays no other; so does one whose leader requests truncations without progress. There is no task,
timer or request per partition.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from headrace.broker.partitions.flusher import Flusher
from headrace.broker.replication.leader_connection import (
    LeaderConnection,
    LeaderConnectionUser,
    LeaderLink,
)
from headrace.broker.replication.partition_fetch_state import Key, PartitionFetchState
from headrace.broker.replication.replica_fetch_session import ReplicaFetchSession
from headrace.broker.replication.replication_slices import TURN_COST, ReplicationSlice, turns
from headrace.broker.runtime.timers import Timers
from headrace.client.errors import ClientError, code_of_number
from headrace.client.frames import Frame
from headrace.clock import Clock
from headrace.protocol.errors import ErrorCode, MalformedMessage
from headrace.protocol.header import ResponseHeader
from headrace.protocol.messages.fetch import (
    FetchEpochEndOffset,
    FetchPartition,
    FetchPartitionData,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.records.buffer import Buffer
from headrace.replication.follower import Follower
from headrace.storage.errors import LogDirFailed, StorageError

log = logging.getLogger(__name__)

FETCH_VERSION: Final = 17
RESPONSE_HEADER_VERSION: Final = 1
MAX_UNDER_WAY: Final = 2  # the waiting fetch, and the one that ends its wait
NAMED_PER_FETCH: Final = 256  # naming may open logs; others are served between fetches

Part = tuple[
    bytes, FetchPartitionData, ReplicationSlice, bool
]  # the last item: whether it is the partition's last slice


@dataclass(frozen=True, slots=True)
class FetchRules:
    """Named like Kafka's `replica.*` settings."""

    fetch_max_bytes: int
    response_max_bytes: int
    fetch_min_bytes: int
    fetch_wait_max_ms: int
    fetch_backoff_s: float
    socket_timeout_s: float


class ReplicaFetcherHost(Protocol):
    """What a fetcher needs from its broker."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers
    flusher: Flusher
    node_id: int

    @property
    def broker_epoch(self) -> int: ...


class FetchThrottle(Protocol):
    """Throttles the copies of replicas that are being moved."""

    def fetch_wait_s(self, follower: Follower) -> float: ...

    def fetched(self, follower: Follower, size_bytes: int) -> None: ...


class ReplicaFetcher:
    """Copies all followed partitions that one broker leads."""

    def __init__(
        self,
        host: ReplicaFetcherHost,
        source_id: int,
        connect: Callable[[], Coroutine[Any, Any, LeaderLink]],
        out_of_range: Callable[[Follower], Coroutine[Any, Any, None]],
        rules: FetchRules,
        throttle: FetchThrottle,
    ) -> None:
        self._throttle = throttle
        self._host = host
        self._source_id = source_id
        self._out_of_range = out_of_range
        self._rules = rules
        self._session = ReplicaFetchSession()
        self._line = LeaderConnection(
            host,
            source_id,
            connect,
            LeaderConnectionUser(self._opened, self._poke, self._waits_since),
            backoff_s=rules.fetch_backoff_s,
            timeout_s=rules.socket_timeout_s,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._sent_at = 0.0
        self._poked = False
        self._closed = False
        self.heard_at = host.clock.monotonic()  # when the leader last answered

    def __len__(self) -> int:
        return len(self._session.states)

    # --- partitions -----------------------------------------------------------------------------

    def add(self, follower: Follower) -> None:
        """Copies this partition from now on; also called when its epoch has changed."""
        self._session.add(follower)
        self._poke()

    def remove(self, follower: Follower) -> None:
        if self._session.remove(follower):
            self._poke()

    def part_from(self, follower: Follower) -> None:
        """Removes it; `has_parted_from` is true once its leader knows."""
        if self._session.part_from(follower):
            self._poke()

    def has_parted_from(self, key: Key) -> bool:
        return self._session.has_parted_from(key)

    def _name(self, state: PartitionFetchState) -> None:
        """Sends its position with the next fetch."""
        if not state.gone:
            self._session.due[state.key] = state
            self._poke()

    def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        self._line.close()

    # --- fetching -------------------------------------------------------------------------------

    def _poke(self) -> None:
        """Fetches in the loop's next iteration, including all changes of this one."""
        if not self._poked and not self._closed:
            self._poked = True
            self._host.loop.call_soon(self._fetch)

    def _fetch(self) -> None:
        self._poked = False
        if self._closed or not self._session.is_needed:
            return
        line = self._line.current
        if line is None or not line.is_open:
            self._session.connection_lost()
            if self._session.is_needed:  # otherwise there is nothing left to copy
                self._line.open()
            return
        if self._under_way >= MAX_UNDER_WAY:
            return
        if self._under_way and not (self._session.session_id and self._session.has_changes):
            return
        request = self._request()
        try:
            answered = line.start(request, version=FETCH_VERSION)
        except ClientError as error:
            self._line.lost(line, error)
            return
        self._under_way += 1
        self._sent_at = self._host.clock.monotonic()
        answered.add_done_callback(partial(self._answered, line, self._session.number))

    def _request(self) -> FetchRequest:
        rules, session = self._rules, self._session
        session.next_fetch()
        request = FetchRequest(
            replica_state=FetchReplicaState(
                replica_id=self._host.node_id, replica_epoch=self._host.broker_epoch
            ),
            # The first fetch returns at once: until then the session has no id.
            max_wait_ms=rules.fetch_wait_max_ms if session.epoch else 0,
            min_bytes=rules.fetch_min_bytes,
            max_bytes=rules.response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=self._named(),
            forgotten_topics_data=session.forgotten(),  # last: naming a partition may remove it
        )
        session.told()
        return request

    def _named(self) -> list[FetchTopic]:
        session = self._session
        topics: dict[bytes, FetchTopic] = {}
        named = 0
        for state in list(session.due.values()):
            if named == NAMED_PER_FETCH:
                self._poke()
                break
            del session.due[state.key]
            follower = state.follower
            wait_s = self._throttle.fetch_wait_s(follower)
            if wait_s:
                self._host.timers.call_later(wait_s, partial(self._name, state))
                continue
            try:
                if follower.log.has_overdue_flush:
                    self._flush(state)  # from an earlier role or incarnation: it must not count yet
                    continue
                position = follower.position()
            except LogDirFailed as error:
                self._give_up(state, error)
                continue
            except StorageError as error:
                self._hold(state, f"its log does not open: {error}")
                continue
            named += 1
            state.named_in = session.number
            state.in_session = True
            topic = topics.get(follower.topic_id)
            if topic is None:
                topic = topics[follower.topic_id] = FetchTopic(
                    topic_id=follower.topic_id, partitions=[]
                )
            topic.partitions.append(
                FetchPartition(
                    partition=follower.index,
                    current_leader_epoch=follower.epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.last_epoch,
                    log_start_offset=position.log_start,
                    partition_max_bytes=self._rules.fetch_max_bytes,
                )
            )
        return list(topics.values())

    def _opened(self) -> None:
        self._under_way = 0
        self._begin_session()

    def _waits_since(self) -> float | None:
        return self._sent_at if self._under_way else None

    # --- responses ------------------------------------------------------------------------------

    def _answered(self, line: LeaderLink, number: int, done: "asyncio.Future[Frame]") -> None:
        error = None if done.cancelled() else done.exception()
        if self._closed or line is not self._line.current or done.cancelled():
            return
        if error is not None:
            self._line.lost(line, error)
            return
        try:
            frame = done.result()
            _, body = ResponseHeader.read(frame, 0, len(frame), RESPONSE_HEADER_VERSION)
            answer = FetchResponse.decode(memoryview(frame)[body:], FETCH_VERSION)
        except MalformedMessage as malformed:
            self._line.lost(line, malformed)
            return
        self._line.works()
        self.heard_at = self._host.clock.monotonic()
        if number < self._session.began:
            self._under_way -= 1  # from an ended session; the new one may have waited for it
            self._poke()
            return
        if answer.error_code:
            self._under_way -= 1
            self._begin_session()
            return
        self._session.answered(number, answer.session_id)
        parts: list[Part] = []
        for topic in answer.responses:
            for data in topic.partitions:
                *more, last = turns(data.records or b"")
                parts += [(topic.topic_id, data, turn, False) for turn in more]
                parts.append((topic.topic_id, data, last, True))
        self._take_slice(line, number, parts, 0)

    def _begin_session(self) -> None:
        self._session.begin()
        self._poke()

    def _take_slice(self, line: LeaderLink, number: int, parts: list[Part], first: int) -> None:
        """Appends fetched records, in slices so that other requests are served between them."""
        if self._closed or line is not self._line.current:
            return
        session, cost = self._session, 0
        for at in range(first, len(parts)):
            topic_id, data, turn, is_last = parts[at]
            state = session.states.get((topic_id, data.partition_index))
            if state is None or state.named_in > number or state.named_in < session.began:
                continue  # the role or the position has changed since the fetch
            if cost + turn.cost > TURN_COST and cost:
                self._host.loop.call_soon(self._take_slice, line, number, parts, at)
                return
            cost += turn.cost
            self._take(state, data, turn.records, is_last=is_last)
        self._under_way -= 1
        if not self._poked:
            self._fetch()

    def _take(
        self,
        state: PartitionFetchState,
        data: FetchPartitionData,
        records: Buffer,
        *,
        is_last: bool,
    ) -> None:
        follower = state.follower
        if follower.closed:
            return
        if data.error_code:
            self._refused(state, code_of_number(data.error_code))
            return
        diverging = data.diverging_epoch
        try:
            if diverging.end_offset >= 0:
                self._truncate_to_leader(state, diverging)
                return
            state.backoff_s = 0.0
            start = follower.log.log_start_offset
            result = follower.take(
                records, data.high_watermark, data.log_start_offset, self._host.clock.wall_ms()
            )
            moved = follower.log.log_start_offset != start
            self._throttle.fetched(follower, len(records))
        except LogDirFailed as error:
            self._give_up(state, error)
            return
        except StorageError as error:
            self._hold(state, str(error))
            return
        if not is_last:
            return
        if result is not None and result.needs_flush:
            self._flush(state)
        elif records or moved:
            self._session.due[state.key] = state

    def _truncate_to_leader(
        self, state: PartitionFetchState, diverging: FetchEpochEndOffset
    ) -> None:
        follower = state.follower
        before = follower.log.log_end_offset
        end = follower.truncate_to(diverging.epoch, diverging.end_offset)
        if end < before:
            self._log_cut(follower, diverging.epoch, end)
        self._go_on(state, before, f"epoch {diverging.epoch} ends at {diverging.end_offset}")

    def _go_on(self, state: PartitionFetchState, before: int, said: str) -> None:
        """Continues after the log was changed at its leader's request."""
        end = state.follower.log.log_end_offset
        if state.has_moved_on(before, end):
            self._name(state)
            return
        reason = f"its leader says that {said}, and no cut settles it: the log ends at {end} here"
        self._hold(state, reason, by_cuts=True)

    def _flush(self, state: PartitionFetchState) -> None:
        self._host.flusher.flush(state.follower).add_done_callback(partial(self._flushed, state))

    def _flushed(self, state: PartitionFetchState, done: "asyncio.Future[None]") -> None:
        error = done.exception()
        if error is None:
            self._name(state)
        else:
            self._hold(state, f"its records did not reach the disk: {error}")

    # --- errors ---------------------------------------------------------------------------------

    def _refused(self, state: PartitionFetchState, code: ErrorCode) -> None:
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            self._hold(state, f"its leader answers {code.name}")
            return
        follower = state.follower
        before, epoch = follower.log.log_end_offset, follower.epoch
        task = self._host.loop.create_task(self._out_of_range(follower))
        self._tasks.add(task)
        task.add_done_callback(partial(self._in_range, state, before, epoch))

    def _in_range(
        self, state: PartitionFetchState, before: int, epoch: int, done: "asyncio.Task[None]"
    ) -> None:
        self._tasks.discard(done)
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            if not isinstance(error, ClientError | StorageError):
                log.error("a partition is not copied", exc_info=error)
            self._hold(state, str(error))
        elif state.follower.closed or state.follower.epoch != epoch:
            self._name(state)  # the log has another leader now
        else:
            self._go_on(state, before, f"offset {before} is out of range")

    def _give_up(self, state: PartitionFetchState, error: LogDirFailed) -> None:
        """Stops copying: the disk is offline until a restart and has reported it."""
        self._session.drop(state)
        follower = state.follower
        log.error(
            "a partition is not copied any more",
            extra={
                "topic": follower.topic,
                "partition": follower.index,
                "reason": str(error),
            },
        )

    def _hold(self, state: PartitionFetchState, reason: str, *, by_cuts: bool = False) -> None:
        """Names the partition again after a growing pause; until then its records are ignored."""
        is_longest = state.hold(self._rules.fetch_backoff_s, by_cuts=by_cuts)
        if state.gone:
            return
        follower = state.follower
        log.log(
            logging.WARNING if is_longest else logging.DEBUG,
            "a partition is not copied for a while",
            extra={
                "topic": follower.topic,
                "partition": follower.index,
                "leader": self._source_id,
                "reason": reason,
            },
        )
        epoch = follower.epoch

        def again() -> None:
            if follower.epoch == epoch:  # otherwise it was named with its new epoch
                self._name(state)

        self._host.timers.call_later(state.backoff_s, again)

    @staticmethod
    def _log_cut(follower: Follower, epoch: int, end: int) -> None:
        log.info(
            "cut a log back to what its leader has",
            extra={
                "topic": follower.topic,
                "partition": follower.index,
                "epoch": epoch,
                "end": end,
            },
        )
