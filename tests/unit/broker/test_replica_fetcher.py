"""A fetcher's session with a leader: what it asks when, and after what trouble."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from headrace.broker.replica_fetcher import (
    FETCH_VERSION,
    FetchRules,
    FetchThrottle,
    Host,
    Line,
    ReplicaFetcher,
)
from headrace.broker.timers import Timers
from headrace.clock import SystemClock
from headrace.protocol.api import APIS
from headrace.protocol.errors import ErrorCode
from headrace.protocol.header import ResponseHeader
from headrace.protocol.messages.fetch import FetchRequest, FetchResponse
from headrace.protocol.struct import Struct
from headrace.replication.follower import Follower, Position

RULES = FetchRules(
    fetch_max_bytes=1 << 20,
    response_max_bytes=1 << 20,
    fetch_min_bytes=1,
    fetch_wait_max_ms=500,
    fetch_backoff_s=1.0,
    socket_timeout_s=30.0,
)


class Leader:
    """A line whose answers the test gives."""

    def __init__(self) -> None:
        self.asked: list[tuple[FetchRequest, asyncio.Future[bytes]]] = []
        self.is_open = True

    def start(self, request: Struct, *, version: int) -> "asyncio.Future[bytes]":
        assert version == FETCH_VERSION
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.asked.append((cast("FetchRequest", request), answer))
        return answer

    def abort(self) -> None:
        self.is_open = False

    def answer(self, number: int, response: FetchResponse) -> None:
        parts: list[Any] = []
        header_version = APIS[1].response_header_version(FETCH_VERSION)
        ResponseHeader(correlation_id=0).write(header_version, parts)
        response.write(FETCH_VERSION, parts)
        self.asked[number][1].set_result(b"".join(parts))


def a_follower(index: int) -> Follower:
    follower = SimpleNamespace(
        topic="t",
        topic_id=b"t" * 16,
        index=index,
        epoch=1,
        closed=False,
        log=SimpleNamespace(owes_flush=False),
        position=lambda: Position(0, -1, 0),
    )
    return cast("Follower", follower)


def run(story: Callable[[ReplicaFetcher, Leader], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        timers = Timers(loop, clock)
        host = SimpleNamespace(
            loop=loop, clock=clock, timers=timers, flusher=None, node_id=2, broker_epoch=7
        )
        leader = Leader()

        async def connect() -> Line:
            return leader

        async def out_of_range(_follower: Follower) -> None:
            raise AssertionError

        throttle = SimpleNamespace(fetch_wait_s=lambda _follower: 0.0)
        fetcher = ReplicaFetcher(
            cast("Host", host), 1, connect, out_of_range, RULES, cast("FetchThrottle", throttle)
        )
        try:
            await story(fetcher, leader)
        finally:
            fetcher.close()
            timers.close()

    asyncio.run(main())


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_session_that_ends_with_two_fetches_under_way_is_followed_by_another() -> None:
    # Found by the simulator: the new session waited for the old one's last answer and was then
    # forgotten; nothing was copied from that leader any more.
    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        fetcher.add(a_follower(0))
        await turns()
        leader.answer(0, FetchResponse(session_id=5, responses=[]))
        await turns()
        fetcher.add(a_follower(1))
        await turns()
        assert [asked.session_id for asked, _ in leader.asked] == [0, 5, 5]
        lost = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
        leader.answer(1, lost)
        await turns()
        leader.answer(2, lost)
        await turns()
        assert len(leader.asked) == 4
        again = leader.asked[3][0]
        assert (again.session_id, again.session_epoch) == (0, 0)
        assert {each.partition for topic in again.topics for each in topic.partitions} == {0, 1}

    run(story)
