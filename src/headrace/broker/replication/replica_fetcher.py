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
from headrace.broker.replication.fetch_session_at_follower import ReplicaFetchSession
from headrace.broker.replication.leader_connection import (
    LeaderConnection,
    LeaderConnectionUser,
    LeaderLink,
)
from headrace.broker.replication.partition_fetch_state import Key, PartitionFetchState
from headrace.broker.replication.replication_slices import SLICE_COST, ReplicationSlice, slices
from headrace.broker.runtime.timers import Timers
from headrace.client.errors import ClientError, code_of_number
from headrace.client.network.frames import Frame
from headrace.clock import Clock
from headrace.limited_log import LimitedLog
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

log = logging.getLogger(__package__)

FETCH_VERSION: Final = 17
RESPONSE_HEADER_VERSION: Final = 1
MAX_IN_FLIGHT: Final = 2  # the waiting fetch, and the one that ends its wait
NAMED_PER_FETCH: Final = 256  # naming may open logs; others are served between fetches

FetchedSlice = tuple[
    bytes, FetchPartitionData, ReplicationSlice, bool
]  # the last item: whether it is the partition's last slice


@dataclass(frozen=True, slots=True)
class ReplicaFetchSettings:
    """Named like Kafka's `replica.*` settings."""

    fetch_max_bytes: int
    response_max_bytes: int
    fetch_min_bytes: int
    fetch_wait_max_ms: int
    fetch_backoff_s: float
    socket_timeout_s: float


class ReplicaFetcherHost(Protocol):
    """The part of the broker that a fetcher uses."""

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
        settings: ReplicaFetchSettings,
        throttle: FetchThrottle,
    ) -> None:
        self._throttle = throttle
        self._host = host
        self._source_id = source_id
        self._out_of_range = out_of_range
        self._settings = settings
        self._session = ReplicaFetchSession()
        self._connection = LeaderConnection(
            host,
            source_id,
            connect,
            LeaderConnectionUser(self._connection_opened, self._schedule_fetch, self._waits_since),
            backoff_s=settings.fetch_backoff_s,
            timeout_s=settings.socket_timeout_s,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight = 0
        self._sent_at = 0.0
        self._fetch_scheduled = False
        self._closed = False
        self._limited_log = LimitedLog(log, host.clock.monotonic)
        self.heard_at = host.clock.monotonic()  # when the leader last answered

    def __len__(self) -> int:
        return len(self._session.states)

    # --- partitions -----------------------------------------------------------------------------

    def add(self, follower: Follower) -> None:
        """Copies this partition from now on; also called when its epoch has changed."""
        self._session.add(follower)
        self._schedule_fetch()

    def remove(self, follower: Follower) -> None:
        if self._session.remove(follower):
            self._schedule_fetch()

    def remove_and_confirm(self, follower: Follower) -> None:
        """Removes a partition; `is_removal_confirmed` is true once its leader knows."""
        if self._session.remove_and_confirm(follower):
            self._schedule_fetch()

    def is_removal_confirmed(self, key: Key) -> bool:
        return self._session.is_removal_confirmed(key)

    def _name_in_next_fetch(self, state: PartitionFetchState) -> None:
        """Sends the partition's position with the next fetch."""
        if not state.removed:
            self._session.due[state.key] = state
            self._schedule_fetch()

    def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        self._connection.close()

    # --- fetching -------------------------------------------------------------------------------

    def _schedule_fetch(self) -> None:
        """Fetches in the loop's next iteration, including all changes of this one."""
        if not self._fetch_scheduled and not self._closed:
            self._fetch_scheduled = True
            self._host.loop.call_soon(self._fetch)

    def _fetch(self) -> None:
        self._fetch_scheduled = False
        if self._closed or not self._session.is_needed:
            return
        link = self._connection.current
        if link is None or not link.is_open:
            self._session.connection_lost()
            if self._session.is_needed:  # otherwise there is nothing left to copy
                self._connection.open()
            return
        if self._in_flight >= MAX_IN_FLIGHT:
            return
        if self._in_flight and not (self._session.session_id and self._session.has_changes):
            return
        request = self._request()
        try:
            answered = link.start(request, version=FETCH_VERSION)
        except ClientError as error:
            self._connection.failed(link, error)
            return
        self._in_flight += 1
        self._sent_at = self._host.clock.monotonic()
        answered.add_done_callback(partial(self._answered, link, self._session.number))

    def _request(self) -> FetchRequest:
        settings, session = self._settings, self._session
        session.next_fetch()
        request = FetchRequest(
            replica_state=FetchReplicaState(
                replica_id=self._host.node_id, replica_epoch=self._host.broker_epoch
            ),
            # The first fetch returns at once: until then the session has no id.
            max_wait_ms=settings.fetch_wait_max_ms if session.epoch else 0,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=self._named_topics(),
            forgotten_topics_data=session.forgotten(),  # last: naming a partition may remove it
        )
        session.changes_sent()
        return request

    def _named_topics(self) -> list[FetchTopic]:
        session = self._session
        topics: dict[bytes, FetchTopic] = {}
        named = 0
        for state in list(session.due.values()):
            if named == NAMED_PER_FETCH:
                self._schedule_fetch()
                break
            del session.due[state.key]
            follower = state.follower
            wait_s = self._throttle.fetch_wait_s(follower)
            if wait_s:
                self._host.timers.call_later(wait_s, partial(self._name_in_next_fetch, state))
                continue
            try:
                if follower.log.has_overdue_flush:
                    self._flush(state)  # records of an earlier role: they must not count yet
                    continue
                position = follower.position()
            except LogDirFailed as error:
                self._stop_copying(state, error)
                continue
            except StorageError as error:
                self._retry_later(state, f"its log does not open: {error}")
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
                    partition_max_bytes=self._settings.fetch_max_bytes,
                )
            )
        return list(topics.values())

    def _connection_opened(self) -> None:
        self._in_flight = 0
        self._begin_session()

    def _waits_since(self) -> float | None:
        return self._sent_at if self._in_flight else None

    # --- responses ------------------------------------------------------------------------------

    def _answered(self, link: LeaderLink, number: int, done: "asyncio.Future[Frame]") -> None:
        error = None if done.cancelled() else done.exception()
        if self._closed or link is not self._connection.current or done.cancelled():
            return
        if error is not None:
            self._connection.failed(link, error)
            return
        try:
            frame = done.result()
            _, body = ResponseHeader.read(frame, 0, len(frame), RESPONSE_HEADER_VERSION)
            answer = FetchResponse.decode(memoryview(frame)[body:], FETCH_VERSION)
        except MalformedMessage as malformed:
            self._connection.failed(link, malformed)
            return
        self._connection.response_received()
        self.heard_at = self._host.clock.monotonic()
        if number < self._session.began:
            self._in_flight -= 1  # its session has ended; the new one may have waited for it
            self._schedule_fetch()
            return
        if answer.error_code:
            self._in_flight -= 1
            self._begin_session()
            return
        self._session.answered(number, answer.session_id)
        parts: list[FetchedSlice] = []
        for topic in answer.responses:
            for data in topic.partitions:
                *more, last = slices(data.records or b"")
                parts += [(topic.topic_id, data, slice_, False) for slice_ in more]
                parts.append((topic.topic_id, data, last, True))
        self._append_slices(link, number, parts, 0)

    def _begin_session(self) -> None:
        self._session.begin()
        self._schedule_fetch()

    def _append_slices(
        self, link: LeaderLink, number: int, parts: list[FetchedSlice], first: int
    ) -> None:
        """Appends fetched records, in slices so that other requests are served between them."""
        if self._closed or link is not self._connection.current:
            return
        session, cost = self._session, 0
        for at in range(first, len(parts)):
            topic_id, data, slice_, is_last = parts[at]
            state = session.states.get((topic_id, data.partition_index))
            if state is None or state.named_in > number or state.named_in < session.began:
                continue  # the role or the position has changed since the fetch
            if cost + slice_.cost > SLICE_COST and cost:
                self._host.loop.call_soon(self._append_slices, link, number, parts, at)
                return
            cost += slice_.cost
            self._append_slice(state, data, slice_.records, is_last=is_last)
        self._in_flight -= 1
        if not self._fetch_scheduled:
            self._fetch()

    def _append_slice(
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
            self._handle_error(state, code_of_number(data.error_code))
            return
        diverging = data.diverging_epoch
        try:
            if diverging.end_offset >= 0:
                self._truncate_to_leader(state, diverging)
                return
            state.backoff_s = 0.0
            start = follower.log.log_start_offset
            result = follower.append_fetched(
                records, data.high_watermark, data.log_start_offset, self._host.clock.wall_ms()
            )
            moved = follower.log.log_start_offset != start
            self._throttle.fetched(follower, len(records))
        except LogDirFailed as error:
            self._stop_copying(state, error)
            return
        except StorageError as error:
            self._retry_later(state, str(error))
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
            self._log_truncation(follower, diverging.epoch, end)
        self._continue_after_truncation(
            state, before, f"epoch {diverging.epoch} ends at {diverging.end_offset}"
        )

    def _continue_after_truncation(
        self, state: PartitionFetchState, before: int, said: str
    ) -> None:
        """Continues after the log was changed at its leader's request."""
        end = state.follower.log.log_end_offset
        if state.record_progress(before, end):
            self._name_in_next_fetch(state)
            return
        reason = (
            f"its leader says that {said}; truncation makes no progress at log end offset {end}"
        )
        self._retry_later(state, reason, by_truncations=True)

    def _flush(self, state: PartitionFetchState) -> None:
        self._host.flusher.flush(state.follower).add_done_callback(partial(self._flushed, state))

    def _flushed(self, state: PartitionFetchState, done: "asyncio.Future[None]") -> None:
        error = done.exception()
        if error is None:
            self._name_in_next_fetch(state)
        else:
            self._retry_later(state, f"its records did not reach the disk: {error}")

    # --- errors ---------------------------------------------------------------------------------

    def _handle_error(self, state: PartitionFetchState, code: ErrorCode) -> None:
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            self._retry_later(state, f"its leader answers {code.name}")
            return
        follower = state.follower
        before, epoch = follower.log.log_end_offset, follower.epoch
        task = self._host.loop.create_task(self._out_of_range(follower))
        self._tasks.add(task)
        task.add_done_callback(partial(self._range_found, state, before, epoch))

    def _range_found(
        self, state: PartitionFetchState, before: int, epoch: int, done: "asyncio.Task[None]"
    ) -> None:
        self._tasks.discard(done)
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            if not isinstance(error, ClientError | StorageError):
                log.error(
                    "unexpected error while looking up the leader's offsets, retrying",
                    extra={
                        "topic": state.follower.topic,
                        "partition": state.follower.index,
                        "leader": self._source_id,
                    },
                    exc_info=error,
                )
            self._retry_later(state, str(error))
        elif state.follower.closed or state.follower.epoch != epoch:
            self._name_in_next_fetch(state)  # the log has another leader now
        else:
            self._continue_after_truncation(state, before, f"offset {before} is out of range")

    def _stop_copying(self, state: PartitionFetchState, error: LogDirFailed) -> None:
        """Stops copying: the disk is offline until a restart and has reported it."""
        self._session.drop(state)
        follower = state.follower
        self._limited_log.error(
            "stopped copying a partition; its log directory is offline until the broker restarts",
            about=f"leader {self._source_id}",
            topic=follower.topic,
            partition=follower.index,
            reason=str(error),
        )

    def _retry_later(
        self, state: PartitionFetchState, reason: str, *, by_truncations: bool = False
    ) -> None:
        """Names the partition again after a growing pause; until then its records are ignored."""
        is_longest = state.back_off(self._settings.fetch_backoff_s, by_truncations=by_truncations)
        if state.removed:
            return
        follower = state.follower
        if is_longest:
            self._limited_log.warning(
                "cannot copy a partition from its leader, retrying",
                about=f"leader {self._source_id}",
                topic=follower.topic,
                partition=follower.index,
                leader=self._source_id,
                retry_s=state.backoff_s,
                reason=reason,
            )
        epoch = follower.epoch

        def retry() -> None:
            if follower.epoch == epoch:  # otherwise it was named with its new epoch
                self._name_in_next_fetch(state)

        self._host.timers.call_later(state.backoff_s, retry)

    def _log_truncation(self, follower: Follower, epoch: int, end: int) -> None:
        self._limited_log.info(
            "truncated a log to the part that matches its leader's",
            about=f"leader {self._source_id}",
            topic=follower.topic,
            partition=follower.index,
            leader_epoch=epoch,
            log_end_offset=end,
        )
