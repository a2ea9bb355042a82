"""Coordinators on a real broker: appends, commits, loading, failures, restarts."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import headrace.testing
from headrace.broker.coordinators import coordinator_runtime
from headrace.broker.coordinators.coordinator_runtime import CoordinatorRuntime
from headrace.broker.coordinators.shard_loader import RECORDS_PER_SLICE, ShardLoader
from headrace.broker.node import Broker
from headrace.broker.partitions.flusher import Flusher
from headrace.cluster.settings import BrokerSettings
from headrace.controller.topic_changes import NewTopic, TopicRef
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.partition_of_key import partition_for
from headrace.coordinator.common.result import CoordinatorResult, ProducerIdentity
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headrace.records.batch_header import headers
from headrace.records.codec import Codec
from headrace.records.control import end_txn_marker
from headrace.records.small_batch_builder import plain_records
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import DiskFull, LogDirFailed
from headrace.storage.log.log import Log, ReadResult
from headrace.storage.state.producers import BatchOrigin
from support.groups.counter_shard import CounterShard, Rang
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.groups import wait_for_coordinator

TOPIC = "__consumer_offsets"
PARTITIONS = 4
DEADLINE_S = 60.0
NEVER_BY_ITSELF = str(2**40)


class Node:
    """A started broker whose `__consumer_offsets` keeps counters."""

    def __init__(self, broker: Broker, poison: set[str]) -> None:
        self.broker = broker
        self.counters: CoordinatorRuntime[CounterShard] = CoordinatorRuntime(
            broker, TOPIC, lambda index: CounterShard(index, poison), ShardLoader()
        )
        self.rang: list[tuple[int, str]] = []
        self.counters.on_effect(Rang, lambda index, rang: self.rang.append((index, rang.name)))

    def leader(self, index: int) -> SoleLeader:
        leader = self.broker.partitions.find(TOPIC, index)
        assert isinstance(leader, SoleLeader)
        return leader

    def leader_of(self, name: str) -> SoleLeader:
        return self.leader(partition_for(name, PARTITIONS))

    def batches(self, name: str) -> list[int]:
        """How many records each batch of that name's partition has."""
        log = self.leader_of(name).log
        data = log.read(log.log_start_offset, max_bytes=1 << 20).data
        return [header.record_count for _, header in headers(data)]

    async def add(self, name: str, amount: int = 1) -> int:
        return await self.counters.run(name, lambda shard, _: shard.add(name, amount))

    async def value(self, name: str) -> int:
        """Asks again while the shard is loading, as a client does."""
        return await patiently(
            lambda: self.counters.read(name, lambda shard, _: shard.counters.get(name, 0))
        )


async def patiently(ask: Callable[[], int]) -> int:
    while True:
        try:
            return ask()
        except CoordinatorError as error:
            if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> int:
    """Returns the number of loop iterations until it is true; `run` has the deadline."""
    turns = 0
    while not condition():
        turns += 1
        await asyncio.sleep(0)
    return turns


@asynccontextmanager
async def started(
    data: Path, settings: dict[str, str] | None = None, poison: set[str] | None = None
) -> AsyncIterator[Node]:
    named = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(data),
        "offsets.topic.num.partitions": str(PARTITIONS),
    }
    broker = Broker(BrokerSettings.parse(named | (settings or {})))
    await broker.start()
    node = Node(broker, poison if poison is not None else set())
    broker.coordinators.groups = node.counters  # type: ignore[assignment]
    broker.coordinators._all = (node.counters,)
    try:
        yield node
    finally:
        await broker.stop(timeout_s=30)


def run(scenario: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


async def code_of(asked: Awaitable[object]) -> ErrorCode:
    with pytest.raises(CoordinatorError) as caught:
        await asked
    return caught.value.code


def other_than(name: str) -> str:
    """A name that belongs to another partition."""
    return next(
        other
        for other in "bcdefghijk"
        if partition_for(other, PARTITIONS) != partition_for(name, PARTITIONS)
    )


# --- results ------------------------------------------------------------------------------------


def test_a_coordinator_without_its_topic_is_not_available(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            assert await code_of(node.add("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert node.counters.read_all(lambda shard, _: shard.index) == []

    run(scenario)


def test_concurrent_callers_share_the_topic_creation(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await asyncio.gather(*(node.counters.ensure_topic() for _ in range(5)))
            assert len(node.broker.metadata.image.topics[TOPIC].partitions) == PARTITIONS
            assert await node.add("a") == 1

    run(scenario)


def test_a_result_is_one_batch_and_is_replayed_before_its_response(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            assert [await node.add("a"), await node.add("a", 5)] == [1, 6]
            assert await node.value("a") == 6

            def two(shard: CounterShard, _: int) -> CoordinatorResult[int]:
                changes = [*shard.add("a").changes, *shard.add("b").changes]
                return CoordinatorResult(2, changes=changes)

            assert await node.counters.run("a", two) == 2
            assert node.batches("a") == [1, 1, 2]

    run(scenario)


def test_an_immediate_response_needs_no_future(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            answer = node.counters.answer
            assert answer("a", lambda shard, _: shard.add("a"), lambda error: -error.code) == 1
            crashed = answer("a", lambda shard, _: shard.crash(), lambda error: error.code)
            assert crashed == ErrorCode.UNKNOWN_SERVER_ERROR

    run(scenario)


def test_effects_run_after_their_records_are_appended(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            await node.add("a")
            assert node.rang == [(partition_for("a", PARTITIONS), "a")]

    run(scenario)


def test_a_deferred_response_is_completed_by_a_later_result(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            waiting = node.counters.run("a", lambda shard, _: shard.wait("a"))
            await asyncio.sleep(0)
            assert not waiting.done()
            await node.add("a", 3)
            assert await waiting == 3

    run(scenario)


def test_a_shard_is_notified_when_a_caller_disconnects(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            waiting = node.counters.run("a", lambda shard, _: shard.wait("a"))
            (deferred,) = node.counters.read("a", lambda shard, _: shard.waiting["a"])
            waiting.cancel()
            await asyncio.sleep(0)
            assert deferred.abandoned
            assert await node.add("a") == 1

    run(scenario)


def test_a_bug_in_a_request_fails_only_that_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            await node.add("a")
            crashed = node.counters.run("a", lambda shard, _: shard.crash())
            assert await code_of(crashed) is ErrorCode.UNKNOWN_SERVER_ERROR
            assert await node.add("a") == 2

    run(scenario)
    assert "ZeroDivisionError" in caplog.text


def test_a_timer_can_append_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            await node.counters.run("tick", lambda shard, _: shard.later("tick", 1))
            await until(lambda: node.leader_of("tick").log.log_end_offset > 0)
            assert await node.value("tick") == 1
            assert node.batches("tick") == [1]

    run(scenario)


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (DiskFull("no room"), ErrorCode.NOT_COORDINATOR),
        (LogDirFailed("gone"), ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_result_that_cannot_be_appended_changes_nothing(
    tmp_path: Path, failure: Exception, code: ErrorCode
) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            await node.add("a")
            waiting = node.counters.run("a", lambda shard, _: shard.wait("a"))
            log = node.leader_of("a").log
            log.local.log_failure = failure  # type: ignore[assignment]
            assert await code_of(node.add("a")) is code
            log.local.log_failure = None
            assert await code_of(waiting) is code
            undone = node.counters.read("a", lambda shard, _: shard.undone)
            assert [error.code for error in undone] == [code]
            assert await node.value("a") == 1
            assert await node.add("a") == 2

    run(scenario)


def test_an_oversized_result_fails_completely(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path, {"message.max.bytes": "2000"}) as node:
            await node.counters.ensure_topic()
            await node.add("a")
            large = node.counters.run("a", lambda shard, _: shard.add_large("a", 500))
            assert await code_of(large) is ErrorCode.UNKNOWN_SERVER_ERROR
            assert await node.value("a") == 1
            assert node.batches("a") == [1]

    run(scenario)


def test_a_shard_that_fails_to_replay_is_loaded_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        poison: set[str] = set()
        async with started(tmp_path, poison=poison) as node:
            await node.counters.ensure_topic()
            assert await node.add("a", 4) == 4
            waiting = node.counters.run("a", lambda shard, _: shard.wait("other"))
            before = node.counters.read("a", lambda shard, _: shard)
            poison.add("a")
            assert await code_of(node.add("a")) is ErrorCode.UNKNOWN_SERVER_ERROR
            poison.clear()
            assert await code_of(waiting) is ErrorCode.NOT_COORDINATOR
            assert await node.value("a") == 5  # it was in the log when replaying failed
            after = node.counters.read("a", lambda shard, _: shard)
            assert after is not before
            assert after.was_loaded

    run(scenario)
    assert "ZeroDivisionError" in caplog.text


def test_a_log_that_cannot_be_replayed_makes_its_coordinator_unavailable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        poison: set[str] = set()
        async with started(tmp_path, poison=poison) as node:
            await node.counters.ensure_topic()
            await node.add("a")
            poison.add("a")
            assert await code_of(node.add("a")) is ErrorCode.UNKNOWN_SERVER_ERROR
            with pytest.raises(CoordinatorError) as caught:
                await node.value("a")
            assert caught.value.code is ErrorCode.NOT_COORDINATOR
            assert await node.add(other_than("a")) == 1

    run(scenario)
    assert "did not load" in caplog.text


def test_a_load_that_failed_for_lack_of_resources_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry needs no request: sessions and transactions must time out."""

    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            await node.add("a")
        read, refused = Log.read, []

        def refuse_once(log: Log, *args: int, **options: object) -> ReadResult:
            if log.topic == TOPIC and not refused:
                refused.append(log.name)
                error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                raise log.directory.fault(error, f"reading {log.name}")
            return read(log, *args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(Log, "read", refuse_once)
        monkeypatch.setattr(coordinator_runtime, "RETRY_LOAD_S", 0.01)
        async with started(tmp_path) as node:
            node.counters.load()
            runners = node.counters._runners
            await until(lambda: partition_for("a", PARTITIONS) in runners)
            assert refused
            assert await node.value("a") == 1

    run(scenario)


def test_a_timer_whose_records_were_not_written_is_retried(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            await node.counters.run("tick", lambda shard, _: shard.later("tick", 1))
            log = node.leader_of("tick").log
            log.local.log_failure = DiskFull("no room")
            timed = node.counters.read("tick", lambda shard, _: shard.timed)
            await until(lambda: len(timed) == 1)
            log.local.log_failure = None
            await until(lambda: log.log_end_offset == 1)
            assert timed == ["tick", "tick"]

    run(scenario)


def test_a_timer_that_failed_its_shard_is_dropped_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        poison = {"tick"}
        async with started(tmp_path, poison=poison) as node:
            await node.counters.ensure_topic()
            await node.counters.run("tick", lambda shard, _: shard.later("tick", 1))
            (runner,) = node.counters._runners.values()
            await until(lambda: runner.leader.log.log_end_offset == 1)
            poison.clear()
            assert await node.value("tick") == 1
            assert len(runner._timers) == 0

    run(scenario)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_records_are_compressed_if_configured(tmp_path: Path, codec: Codec) -> None:
    async def scenario() -> None:
        producer = ProducerIdentity(4, 1)
        for value in (1, 2):
            async with started(tmp_path) as node:
                await node.counters.ensure_topic()
                node.counters.codec = codec
                await patiently(lambda: node.counters.read("a", lambda shard, _: 1))
                assert await node.add("a") == value
                await node.counters.run("a", lambda shard, _: shard.add("b", 1, producer))
                log = node.leader_of("a").log
                batches = [header for _, header in headers(log.read(0, max_bytes=1 << 20).data)]
                assert {header.codec for header in batches} == {codec}
                assert [header.is_transactional for header in batches[-2:]] == [False, True]

    run(scenario)


# --- commits ------------------------------------------------------------------------------------


class HeldOffload:
    """Flushes when the test says so."""

    def __init__(self) -> None:
        self.running: list[tuple[Callable[[], None], asyncio.Future[None]]] = []

    def __call__(self, call: Callable[[], None]) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.running.append((call, future))
        return future

    def close(self) -> None:
        """Nothing to close."""

    def let_go(self, error: Exception | None = None) -> None:
        running, self.running = self.running, []
        for call, future in running:
            if error is not None:
                future.set_exception(error)
            else:
                call()
                future.set_result(None)


@asynccontextmanager
async def held(data: Path) -> AsyncIterator[tuple[Node, HeldOffload]]:
    """Every commit waits for a flush, and every flush for the test."""
    async with started(data, {"log.flush.interval.messages": "1"}) as node:
        await node.counters.ensure_topic()
        offload = HeldOffload()
        node.counters.flusher = Flusher(node.broker.loop, offload)
        yield node, offload
        while offload.running:
            offload.let_go()
            await asyncio.sleep(0)


def test_a_response_waits_for_the_flush_of_its_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with held(tmp_path) as (node, offload):
            waiting = node.counters.run("a", lambda shard, _: shard.wait("a"))
            added = node.counters.run("a", lambda shard, _: shard.add("a"))
            # A read waits too: its response depends on uncommitted records.
            asked = node.counters.run("a", lambda shard, _: CoordinatorResult(shard.counters["a"]))
            await asyncio.sleep(0.01)
            assert not (waiting.done() or added.done() or asked.done() or node.rang)
            offload.let_go()
            assert [await waiting, await added, await asked] == [1, 1, 1]
            assert len(node.rang) == 1

    run(scenario)


def test_results_that_wait_for_one_flush_are_answered_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with held(tmp_path) as (node, offload):
            answers: list[int] = []
            for _ in range(3):
                added = node.counters.run("a", lambda shard, _: shard.add("a"))
                added.add_done_callback(lambda done: answers.append(done.result()))
            while len(answers) < 3:
                offload.let_go()
                await asyncio.sleep(0)
            assert answers == [1, 2, 3]

    run(scenario)


def test_records_whose_flush_failed_are_not_acknowledged_or_applied(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with held(tmp_path) as (node, offload):
            added = node.counters.run("a", lambda shard, _: shard.add("a"))
            offload.let_go(LogDirFailed("gone"))
            assert await code_of(added) is ErrorCode.NOT_COORDINATOR
            assert await node.value("a") == 1  # loaded again: the log still has it

    run(scenario)


# --- loading ------------------------------------------------------------------------------------


def test_a_restarted_broker_has_the_committed_state(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            for name in ("a", "b", "c", "d"):
                await node.add(name, ord(name))
        async with started(tmp_path) as node:
            for name in ("a", "b", "c", "d"):
                assert await node.value(name) == ord(name)
            await node.add("a")
            assert await node.value("a") == ord("a") + 1

    run(scenario)


def test_shards_load_after_a_start_without_a_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            await node.add("a")
        async with started(tmp_path) as node:
            await until(lambda: bool(node.counters._runners))
            assert await node.value("a") == 1

    run(scenario)


def test_a_loading_shard_is_reported_and_the_loop_serves_other_requests(tmp_path: Path) -> None:
    count = RECORDS_PER_SLICE * 5

    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            names = [f"n{number}" for number in range(count)]
            index = partition_for("a", PARTITIONS)
            for name in names:
                await node.counters.run_partition(index, lambda shard, _, n=name: shard.add(n))
        async with started(tmp_path) as node:
            assert await code_of(node.add("a")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            with pytest.raises(CoordinatorError) as caught:
                node.counters.read_all(lambda shard, _: len(shard.counters))
            assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            turns = await until(lambda: bool(node.counters._runners))
            assert turns >= count // RECORDS_PER_SLICE
            assert node.counters.read_all(lambda shard, _: len(shard.counters)) == [count]

    run(scenario)


def test_transactional_records_apply_when_their_marker_commits_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        kept, dropped, still_open = (
            ProducerIdentity(1, 0),
            ProducerIdentity(2, 0),
            ProducerIdentity(3, 0),
        )
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            leader = node.leader_of("a")
            for producer in (kept, dropped, still_open):
                name = f"n{producer.producer_id}"
                await node.counters.run(
                    "a", lambda shard, _, n=name, p=producer: shard.add(n, 1, p)
                )
            for producer, commit in ((kept, True), (dropped, False)):
                marker = end_txn_marker(
                    commit=commit,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    coordinator_epoch=0,
                    timestamp_ms=1,
                )
                leader.append(memoryview(bytearray(marker)), 1, BatchOrigin.COORDINATOR)
                node.counters.end_transaction(leader.index, producer, committed=commit)
            assert node.counters.read("a", lambda shard, _: shard.counters) == {"n1": 1}
        async with started(tmp_path) as node:
            await node.value("a")
            assert node.counters.read("a", lambda shard, _: shard.counters) == {"n1": 1}
            assert node.counters.read("a", lambda shard, _: [*shard.open]) == [still_open]

    run(scenario)


def test_a_record_of_an_unknown_type_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            leader = node.leader_of("a")
            leader.append_plain_records(plain_records([(b"\x7f\xff future", b"v")]), 1, 1)
            await patiently(lambda: node.counters.read("a", lambda shard, _: 1))
            assert await node.add("a") == 1

    run(scenario)
    assert "skipped a record of unknown type" in caplog.text


# --- lifecycle ----------------------------------------------------------------------------------


def test_deleting_the_topic_unloads_its_shards(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            await node.add("a")
            waiting = node.counters.run("a", lambda shard, _: shard.wait("a"))
            await node.broker.metadata.decide(
                lambda controller: controller.delete_topics([TopicRef(TOPIC)])
            )
            assert await code_of(waiting) is ErrorCode.NOT_COORDINATOR
            assert await code_of(node.add("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            await node.counters.ensure_topic()
            assert await node.add("a") == 1

    run(scenario)


def test_shards_are_notified_of_changed_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            await node.add("a")
            decide = node.broker.metadata.decide
            await decide(lambda controller: controller.create_topics([NewTopic("t")]))
            changed = node.counters.read("a", lambda shard, _: shard.changed)
            assert changed == {"t"}
            changed.clear()
            await decide(lambda controller: controller.delete_topics([TopicRef("t")]))
            assert changed == {"t"}

    run(scenario)


def test_a_stop_answers_all_requests_that_wait_for_other_clients(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            await node.counters.ensure_topic()
            waiting = node.counters.run("a", lambda shard, _: shard.wait("a"))
        assert await code_of(waiting) is ErrorCode.NOT_COORDINATOR
        assert await code_of(node.add("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(scenario)


def test_the_topics_own_partition_count_decides_where_a_key_belongs(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = {"offsets.topic.num.partitions": "1"}
        async with started(tmp_path, settings) as node:
            await node.counters.ensure_topic()
            await node.add("a")
        async with started(tmp_path) as node:
            assert node.counters.partition_of("a") == 0
            assert await node.value("a") == 1

    run(scenario)


def test_a_member_that_waits_for_others_is_answered_when_the_broker_stops() -> None:
    settings = {"group.initial.rebalance.delay.ms": "60000"}
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    describe = DescribeGroupsRequest(groups=["g"])
    with (
        headrace.testing.Broker(settings=settings) as broker,
        Wire(broker.bootstrap_servers) as member,
        Wire(broker.bootstrap_servers) as tool,
    ):
        wait_for_coordinator(tool, "g")
        member.send(join, 2)
        wait_for(
            lambda: tool.call(describe, DescribeGroupsResponse).groups[0].members,
            "the member waits",
        )
        broker.stop()
        _, answer = member.receive(APIS[ApiKey.JOIN_GROUP], 2)
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
