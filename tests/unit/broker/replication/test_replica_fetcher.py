"""A fetcher's session with a leader: its requests, their timing and their retries."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from itertools import repeat
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import create_autospec

from headrace.broker.partitions.flusher import Flusher
from headrace.broker.replication.fetch_backoff import FIRST_BACKOFF_S
from headrace.broker.replication.replica_fetcher import (
    FETCH_VERSION,
    LeaderLink,
    ReplicaFetcher,
    ReplicaFetchSettings,
)
from headrace.broker.runtime.timers import Timers
from headrace.client.errors import ClientError
from headrace.clock import Clock, SystemClock
from headrace.protocol.api import APIS
from headrace.protocol.errors import ErrorCode
from headrace.protocol.header import ResponseHeader
from headrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchEpochEndOffset,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from headrace.protocol.struct import Struct
from headrace.records.record import Record, build_batch
from headrace.replication.follower import Follower, Position
from headrace.storage.errors import DiskFull

RULES = ReplicaFetchSettings(
    fetch_max_bytes=1 << 20,
    response_max_bytes=1 << 20,
    fetch_min_bytes=1,
    fetch_wait_max_ms=500,
    fetch_backoff_s=1.0,
    socket_timeout_s=30.0,
)
DEADLINE_S = 10.0


class Leader:
    """A connection to a leader whose responses the test gives."""

    def __init__(self) -> None:
        self.asked: list[tuple[FetchRequest, asyncio.Future[bytes]]] = []
        self.is_open = True
        self.is_dead = False
        self.connections = 0

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


@dataclass
class Host:
    """The part of a broker that a fetcher uses."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers
    flusher: Flusher
    node_id: int = 2
    broker_epoch: int = 7


class NoThrottle:
    """Nothing is throttled."""

    def fetch_wait_s(self, follower: Follower) -> float:
        return 0.0

    def fetched(self, follower: Follower, size_bytes: int) -> None: ...


def a_follower(index: int) -> Follower:
    follower = SimpleNamespace(
        topic="t",
        topic_id=b"t" * 16,
        index=index,
        epoch=1,
        closed=False,
        log=SimpleNamespace(has_overdue_flush=False),
        position=lambda: Position(0, -1, 0),
    )
    return cast("Follower", follower)


async def _is_in_range(_follower: Follower) -> None:
    raise AssertionError


def run(
    story: Callable[[ReplicaFetcher, Leader], Coroutine[Any, Any, None]],
    out_of_range: Callable[[Follower], Coroutine[Any, Any, None]] = _is_in_range,
) -> None:
    async def main() -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        timers = Timers(loop, clock)
        host = Host(loop, clock, timers, create_autospec(Flusher, instance=True))
        leader = Leader()

        async def connect() -> LeaderLink:
            leader.connections += 1
            if leader.is_dead:
                raise ClientError("connection refused")
            return leader

        fetcher = ReplicaFetcher(host, 1, connect, out_of_range, RULES, NoThrottle())
        try:
            await story(fetcher, leader)
        finally:
            fetcher.close()
            timers.close()

    asyncio.run(main())


async def loop_iterations(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_session_that_ends_with_two_fetches_under_way_is_followed_by_another() -> None:
    # The new session waits for the last response of the old one and must then start; otherwise
    # nothing would be copied from that leader.
    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        fetcher.add(a_follower(0))
        await loop_iterations()
        leader.answer(0, FetchResponse(session_id=5, responses=[]))
        await loop_iterations()
        fetcher.add(a_follower(1))
        await loop_iterations()
        assert [asked.session_id for asked, _ in leader.asked] == [0, 5, 5]
        lost = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
        leader.answer(1, lost)
        await loop_iterations()
        leader.answer(2, lost)
        await loop_iterations()
        assert len(leader.asked) == 4
        retry = leader.asked[3][0]
        assert (retry.session_id, retry.session_epoch) == (0, 0)
        assert {each.partition for topic in retry.topics for each in topic.partitions} == {0, 1}

    run(story)


def test_a_dead_leader_is_not_contacted_after_its_last_partition_moves() -> None:
    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        moved, stays = a_follower(0), a_follower(1)
        fetcher.add(moved)
        fetcher.add(stays)
        await loop_iterations()
        leader.answer(0, FetchResponse(session_id=5, responses=[]))
        await loop_iterations()
        leader.is_dead, leader.is_open = True, False
        leader.asked[1][1].set_exception(ClientError("connection reset"))
        await loop_iterations()
        fetcher.remove(moved)
        await loop_iterations()
        assert leader.connections == 2  # `stays` may still be led there
        fetcher.remove(stays)
        await loop_iterations()
        assert leader.connections == 2
        leader.is_dead, leader.is_open = False, True
        fetcher.add(moved)  # the broker is back, and leads again
        await loop_iterations()
        assert leader.connections == 3
        assert leader.asked[2][0].forgotten_topics_data == []

    run(story)


class TakingFollower:
    """Records the loop iteration of each append; one write may fail."""

    def __init__(self, failing: int | None = None) -> None:
        self.taken: list[tuple[int, int]] = []  # (loop iteration, bytes)
        self.slice_ = 0
        self._failing = failing

    def take(self, records: memoryview, *_told: int) -> None:
        if len(self.taken) == self._failing:
            self._failing = None
            raise DiskFull("no room")
        self.taken.append((self.slice_, len(records)))


def a_taking_follower(noted: TakingFollower) -> Follower:
    follower = a_follower(0)
    cast("Any", follower).append_fetched = noted.take
    cast("Any", follower).log.log_start_offset = 0
    return follower


async def take_small_batches(fetcher: ReplicaFetcher, leader: Leader, noted: TakingFollower) -> int:
    """Fetches a thousand batches in one response; returns their bytes."""
    fetcher.add(a_taking_follower(noted))
    await loop_iterations()
    leader.answer(0, FetchResponse(session_id=5, responses=[]))
    await loop_iterations()
    records = bytes(build_batch([Record(0, 0, None, b"x", ())])) * 1000
    data = FetchPartitionData(
        partition_index=0, high_watermark=0, log_start_offset=0, records=records
    )
    topic = FetchableTopicResponse(topic_id=b"t" * 16, partitions=[data])
    leader.answer(1, FetchResponse(session_id=5, responses=[topic]))
    for _ in range(20):
        await asyncio.sleep(0)
        noted.slice_ += 1
    return len(records)


def test_many_batches_are_appended_in_slices_before_the_next_fetch() -> None:
    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        noted = TakingFollower()
        size = await take_small_batches(fetcher, leader, noted)
        turns_used, sizes = zip(*noted.taken, strict=True)
        assert sum(sizes) == size
        assert len(set(turns_used)) == len(noted.taken) > 4
        assert len(leader.asked) == 3  # fetching continues

    run(story)


def test_batches_after_a_failed_write_are_not_appended() -> None:
    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        noted = TakingFollower(failing=2)
        await take_small_batches(fetcher, leader, noted)
        assert len(noted.taken) == 2

    run(story)


class CutFollower:
    """Holds `end` records; `cut_ends` are the log ends after the leader's truncations."""

    def __init__(self, end: int, cut_ends: Iterator[int]) -> None:
        self.follower = a_follower(0)
        self.log = cast("Any", self.follower).log
        self.log.log_end_offset, self.log.log_start_offset = end, 0
        self._cut_ends = cut_ends
        cast("Any", self.follower).truncate_to = self._truncate_to
        cast("Any", self.follower).append_fetched = self._append_slice

    def _truncate_to(self, _epoch: int, _end_offset: int) -> int:
        self.log.log_end_offset = end = next(self._cut_ends)
        return end

    def _append_slice(self, records: memoryview, *_told: int) -> None:
        if records:
            self.log.log_end_offset += 1


def one_partition(**told: Any) -> FetchResponse:
    data = FetchPartitionData(partition_index=0, high_watermark=0, log_start_offset=0, **told)
    topic = FetchableTopicResponse(topic_id=b"t" * 16, partitions=[data])
    return FetchResponse(session_id=5, responses=[topic])


def diverging() -> FetchResponse:
    return one_partition(diverging_epoch=FetchEpochEndOffset(epoch=1, end_offset=3))


def names_it(leader: Leader, since: int) -> bool:
    return any(asked.topics for asked, _ in leader.asked[since:])


async def is_named_at_once_after(leader: Leader, response: FetchResponse) -> bool:
    count = len(leader.asked)
    leader.answer(-1, response)
    await loop_iterations()
    return names_it(leader, count)


async def pause_after_s(leader: Leader, response: FetchResponse) -> float:
    """Answers the last fetch; returns the time until the partition is fetched again."""
    clock = SystemClock()
    began, count = clock.monotonic(), len(leader.asked)
    leader.answer(-1, response)
    async with asyncio.timeout(DEADLINE_S):
        while not names_it(leader, count):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return clock.monotonic() - began


async def named(fetcher: ReplicaFetcher, leader: Leader, follower: Follower) -> None:
    count = len(leader.asked)
    fetcher.add(follower)
    await loop_iterations()
    assert [len(asked.topics) for asked, _ in leader.asked[count:]] == [1]


def test_each_step_of_a_truncation_is_followed_by_an_immediate_fetch() -> None:
    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        cut = CutFollower(9, iter([7, 5, 3]))
        await named(fetcher, leader, cut.follower)
        for _ in range(3):
            assert await is_named_at_once_after(leader, diverging())

    run(story)


def test_a_truncation_without_progress_is_not_retried_immediately() -> None:
    # Otherwise the two brokers would repeat this in a tight loop.
    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        stuck = CutFollower(9, repeat(9))
        await named(fetcher, leader, stuck.follower)
        pauses_s = [await pause_after_s(leader, diverging()) for _ in range(4)]
        assert pauses_s[0] >= FIRST_BACKOFF_S
        assert pauses_s[-1] >= 8 * FIRST_BACKOFF_S

    run(story)


def test_truncations_that_undo_copied_records_back_off() -> None:
    # A leader whose epochs contradict its records sends them, and then asks to drop them.
    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        swaying = CutFollower(9, repeat(8))
        records = bytes(build_batch([Record(0, 0, None, b"x", ())]))
        await named(fetcher, leader, swaying.follower)
        assert await is_named_at_once_after(leader, diverging())
        pauses_s = []
        for _ in range(4):
            assert await is_named_at_once_after(leader, one_partition(records=records))
            pauses_s.append(await pause_after_s(leader, diverging()))
        assert pauses_s[0] >= FIRST_BACKOFF_S
        assert pauses_s[-1] >= 8 * FIRST_BACKOFF_S

    run(story)


def test_a_new_leader_epoch_ends_the_pauses_between_truncations() -> None:
    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        swaying = CutFollower(9, repeat(8))
        await named(fetcher, leader, swaying.follower)
        assert await is_named_at_once_after(leader, diverging())
        assert await pause_after_s(leader, diverging()) >= FIRST_BACKOFF_S
        leader.answer(2, FetchResponse(session_id=5, responses=[]))  # which waited for records
        await loop_iterations()
        swaying.log.log_end_offset = 9
        cast("Any", swaying.follower).epoch = 2
        await named(fetcher, leader, swaying.follower)
        assert await is_named_at_once_after(leader, diverging())

    run(story)


def test_an_offset_that_stays_out_of_range_is_not_retried_immediately() -> None:
    # The leader does not know the epoch of the follower's last record, and has as many records.
    async def found_nothing(_follower: Follower) -> None:
        pass

    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        stuck = CutFollower(9, repeat(9))
        await named(fetcher, leader, stuck.follower)
        refused = one_partition(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        pauses_s = [await pause_after_s(leader, refused) for _ in range(4)]
        assert pauses_s[0] >= FIRST_BACKOFF_S
        assert pauses_s[-1] >= 8 * FIRST_BACKOFF_S

    run(story, found_nothing)


def test_a_partition_whose_offset_range_is_unknown_is_retried() -> None:
    # Also after an unexpected error, such as a response without the partition.
    async def finds_no_answer(_follower: Follower) -> None:
        raise IndexError

    async def story(fetcher: ReplicaFetcher, leader: Leader) -> None:
        await named(fetcher, leader, CutFollower(9, repeat(9)).follower)
        refused = one_partition(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        assert await pause_after_s(leader, refused) >= FIRST_BACKOFF_S

    run(story, finds_no_answer)
