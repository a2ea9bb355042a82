"""Fetch (key 1) from followers: only for replicas, and up to the log end offset.

A fetch states the follower's position, so it advances the high watermark and may bring the follower
in sync. It waits for records; a new watermark alone is sent with the next records or at the end of
the wait. A second fetch of a session ends the wait of the first, so a follower with additional
partitions need not wait for the earlier ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.broker.fetch.delayed_fetch import DelayedResponse
from headrace.broker.replication.fetch_session_at_leader import (
    FetchPosition,
    FollowerFetchSession,
    Key,
)
from headrace.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from headrace.protocol.struct import Struct

if TYPE_CHECKING:
    from headrace.broker.partitions.partition_table import PartitionTable
    from headrace.broker.replication.replica_manager import ReplicaManager
    from headrace.clock import Clock


class FollowerFetchHost(Protocol):
    """The part of the leader's broker that a follower's fetch uses."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    partitions: PartitionTable
    stopping: bool

    @property
    def replication(self) -> ReplicaManager: ...


def handle(
    host: FollowerFetchHost, request: FetchRequest, replica_id: int, broker_epoch: int
) -> FetchResponse | asyncio.Future[Struct | None]:
    replication = host.replication
    session = replication.sessions.begin(
        replica_id, broker_epoch, request.session_id, request.session_epoch
    )
    if not isinstance(session, FollowerFetchSession):
        return FetchResponse(error_code=session, session_id=0, responses=[])
    session.forget(_forgotten_partitions(request))
    now = host.clock.monotonic()
    counted = session.apply_positions(host.partitions, _fetch_positions(request), now)
    replication.followers_fetched(replica_id, counted)
    if request.max_wait_ms <= 0 or host.stopping or session.check_ready(host.partitions, now):
        return answer(host, session, request.max_bytes)
    return _DelayedReplicaFetch(host, session, request).future  # type: ignore[return-value]


def answer(host: FollowerFetchHost, session: FollowerFetchSession, max_bytes: int) -> FetchResponse:
    topics: dict[bytes, FetchableTopicResponse] = {}
    now = host.clock.monotonic()
    for topic_id, data in session.answer(host.partitions, max_bytes, now):
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchableTopicResponse(topic_id=topic_id, partitions=[])
        topic.partitions.append(data)
    return FetchResponse(session_id=session.session_id, responses=list(topics.values()))


class _DelayedReplicaFetch(DelayedResponse):
    """A fetch that waits for records, an error or its time limit."""

    __slots__ = (
        "_catch_up_timer",
        "_host",
        "_scheduled",
        "_session",
        "_timer",
    )

    def __init__(
        self, host: FollowerFetchHost, session: FollowerFetchSession, request: FetchRequest
    ) -> None:
        self.future = host.loop.create_future()
        self._host = host
        self._session = session
        self._answer = partial(answer, host, session, request.max_bytes)
        self._scheduled = False
        self._timer = host.loop.call_later(request.max_wait_ms / 1000, self.finish)
        self._catch_up_timer: asyncio.TimerHandle | None = None
        session.waiting = self
        host.replication.waiting[self] = None
        # A follower that disconnects cancels the future.
        self.future.add_done_callback(lambda _: self._stop_watching())
        self._schedule_catch_up()

    def wake(self) -> None:
        # In the loop's next iteration, so that the response includes everything appended in this
        # one.
        if not self._scheduled:
            self._scheduled = True
            self._host.loop.call_soon(self._answer_if_ready)

    def _schedule_catch_up(self) -> None:
        """Checks again when the throttle allows more for a lagging follower."""
        wait_s = self._session.catch_up_wait_s(self._host.clock.monotonic())
        if wait_s is not None:
            if self._catch_up_timer is not None:
                self._catch_up_timer.cancel()
            self._catch_up_timer = self._host.loop.call_later(wait_s, self.wake)

    def _answer_if_ready(self) -> None:
        self._scheduled = False
        if self.future.done():
            return
        if self._session.check_ready(self._host.partitions, self._host.clock.monotonic()):
            self.finish()
        else:
            self._schedule_catch_up()

    def _stop_watching(self) -> None:
        self._timer.cancel()
        if self._catch_up_timer is not None:
            self._catch_up_timer.cancel()
        self._host.replication.waiting.pop(self, None)
        if self._session.waiting is self:
            self._session.waiting = None


def _fetch_positions(request: FetchRequest) -> Iterator[FetchPosition]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield FetchPosition(
                topic.topic_id,
                partition.partition,
                partition.fetch_offset,
                partition.last_fetched_epoch,
                partition.current_leader_epoch,
                partition.log_start_offset,
                partition.partition_max_bytes,
            )


def _forgotten_partitions(request: FetchRequest) -> Iterator[Key]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield (topic.topic_id, index)
