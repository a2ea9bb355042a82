"""Changed, shortened or missing closed segments are never served and are repaired."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.handlers import alter_partition
from headrace.cluster.image import MetadataImage
from headrace.controller.isr_changes import IsrResult
from headrace.controller.result import ControllerResult
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.storage.errors import RecordsDamaged
from headrace.storage.log.log import Log
from support.brokers.members import Members, run, until
from support.brokers.orders_topic import create as create_orders
from support.wire.batches import batch, values_of

SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "600000",
    "replica.fetch.wait.max.ms": "100",
}
SEGMENT_BYTES = 1 << 20
COUNT = 60
VALUES = [b"%04d" % number * 10_000 for number in range(COUNT)]  # 40 kB each: three segments

Damage = Callable[[Path], None]


def segment(data: Path, number: int) -> Path:
    return sorted(data.glob("orders-0/*.log"))[number]


def flip(data: Path) -> None:
    with segment(data, 1).open("r+b") as file:
        file.seek(500_000)
        (byte,) = file.read(1)
        file.seek(500_000)
        file.write(bytes([byte ^ 1]))


def shorten(data: Path) -> None:
    with segment(data, 1).open("r+b") as file:
        file.truncate(500_000)


def remove(data: Path) -> None:
    segment(data, 1).unlink()


def remove_with_indexes(data: Path) -> None:
    stem = segment(data, 1).stem
    for path in data.glob(f"orders-0/{stem}*"):
        path.unlink()


def remove_first(data: Path) -> None:
    segment(data, 0).unlink()


async def create(
    members: Members, *, replicas: tuple[int, ...] = (1, 2, 3), **configs: str
) -> None:
    new = CreatableTopic(
        name="orders",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
        configs=[
            CreatableTopicConfig(name="segment.bytes", value=str(SEGMENT_BYTES)),
            *(CreatableTopicConfig(name=name, value=value) for name, value in configs.items()),
        ],
    )
    answer = await members.ask(1, CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message
    await until(members.agree, "everybody knows")


async def produce(members: Members, value: bytes, key: bytes | None = None) -> None:
    """Sends to the current leader until it succeeds."""

    async def once() -> bool:
        at = members.partition(next(iter(members.brokers))).leader
        if at not in members.brokers:
            return False
        data = TopicProduceData(
            name="orders", partition_data=[PartitionProduceData(records=batch(value, key=key))]
        )
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
        answer = await members.ask(at, request, ProduceResponse, version=12)
        return answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    tries = 0
    while not await once():
        tries += 1
        assert tries < 1000
        await until(members.agree, "everybody knows")


async def fetch(
    members: Members, at: int, offset: int, rack: str = ""
) -> tuple[ErrorCode, list[bytes | None]]:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 24,
        rack_id=rack,
        topics=[FetchTopic(topic="orders", partitions=[wanted])],
    )
    answer = await members.ask(at, request, FetchResponse, version=12)
    data = answer.responses[0].partitions[0]
    return ErrorCode(data.error_code), values_of(data.records or b"")


async def consume(members: Members, count: int) -> list[bytes | None]:
    """Reads from the current leader; served records must equal the written ones."""
    found: list[bytes | None] = []
    tries = 0
    while len(found) < count:
        at = members.partition(next(iter(members.brokers))).leader
        if at in members.brokers:
            _, more = await fetch(members, at, len(found))
            found += more
        tries += 1
        assert tries < 5000, f"{len(found)} of {count} were read"
        await until(members.agree, "everybody knows")
    return found


def log_of(members: Members, id_: int) -> Log:
    replica = members.brokers[id_].partitions.replica("orders", 0)
    assert replica is not None
    return replica.log


def values(members: Members, id_: int) -> list[bytes | None]:
    log = log_of(members, id_)
    found: list[bytes | None] = []
    while len(found) < log.log_end_offset:
        more = values_of(log.read(len(found), max_bytes=1 << 20).data)
        if not more:
            break
        found += more
    return found


async def all_alike(
    members: Members, expected: list[bytes], ids: tuple[int, ...] = (1, 2, 3)
) -> None:
    def are_in_sync() -> bool:
        return all(set(members.partition(each).isr) == {*ids} for each in ids)

    await until(are_in_sync, "all are in sync, as everybody knows")
    for id_ in ids:
        await until(
            lambda id_=id_: log_of(members, id_).log_end_offset == len(expected), f"{id_} has all"
        )
        assert values(members, id_) == expected
        assert not log_of(members, id_).is_damaged


@pytest.mark.parametrize("damage", [flip, shorten])
def test_a_running_leader_that_reads_damaged_data_is_copied_again(
    damage: Damage, tmp_path: Path
) -> None:
    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            await create(members)
            for value in VALUES:
                await produce(members, value)
            assert members.partition(1).leader == 1
            damage(tmp_path / "1")
            assert await consume(members, COUNT) == VALUES
            assert members.partition(2).leader != 1
            await produce(members, b"more")
            await all_alike(members, [*VALUES, b"more"])

    run(test())


DAMAGED = 26 + 500_000 // len(batch(VALUES[0]))  # the offset that `flip` hits


def test_a_damaged_leader_whose_successor_fails_serves_its_intact_data(tmp_path: Path) -> None:
    """The leader was about to resign. The other replica leads when it returns and repairs it."""

    async def test() -> None:
        settings = SETTINGS | {"min.insync.replicas": "1"}
        async with Members(tmp_path, count=2, settings=settings) as members:
            other = members.controller  # the leader's request to it fails
            leader = 3 - other
            await create(members, replicas=(leader, other))
            for value in VALUES:
                await produce(members, value)
            await until(lambda: log_of(members, other).log_end_offset == COUNT, "both have all")
            flip(tmp_path / str(leader))
            log = log_of(members, leader)
            # In one loop iteration: it detects the damage and asks to resign when the other fails.
            with pytest.raises(RecordsDamaged):
                log.read(DAMAGED, max_bytes=1)
            members.brokers[leader].replication.resign_from_failed()
            members.kill(other)
            assert log.failure is not None
            members.sessions[other].expire()
            await until(lambda: members.partition(leader).isr == (leader,), "it is alone")
            await until(lambda: log.failure is None, "it is in use again")
            assert (await fetch(members, leader, 0))[1] == VALUES[:26]
            assert (await fetch(members, leader, DAMAGED))[0] == ErrorCode.CORRUPT_MESSAGE
            await produce(members, b"more")
            await members.start(other)
            await until(lambda: members.partition(leader).leader == other, "the other leads")
            await all_alike(members, [*VALUES, b"more"], (1, 2))

    run(test())


def test_a_damaged_leader_that_resigned_is_copied_again_when_its_successors_return(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            await create(members)
            for value in VALUES:
                await produce(members, value)
            flip(tmp_path / "1")
            assert (await fetch(members, 1, DAMAGED))[0] == ErrorCode.CORRUPT_MESSAGE
            await until(lambda: members.partition(1).leader != 1, "another leads")
            for id_ in (2, 3):
                members.kill(id_)
                members.sessions[id_].expire()
            await until(lambda: members.partition(1).leader == -1, "nobody leads")
            await members.start(2)
            await members.start(3)
            assert await consume(members, COUNT) == VALUES
            await produce(members, b"more")
            await all_alike(members, [*VALUES, b"more"])

    run(test())


def test_a_running_follower_that_reads_damaged_data_is_copied_again(tmp_path: Path) -> None:
    """This also works on an idle partition: the follower fetches from its leader again."""

    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            await create(members)
            for value in VALUES:
                await produce(members, value)
            flip(tmp_path / "3")
            await until(lambda: log_of(members, 3).log_end_offset == COUNT, "3 has all")
            assert (await fetch(members, 3, 0, "rack-3"))[1] == VALUES[:26]
            assert await fetch(members, 3, DAMAGED, "rack-3") == (
                ErrorCode.OFFSET_NOT_AVAILABLE,  # consumers ask the leader then
                [],
            )
            await until(lambda: 3 not in members.partition(3).isr, "3 is not in sync")
            await all_alike(members, VALUES)

    run(test())


class LateLine:
    """Delays the follower's fetches from `offset` on until they are released."""

    def __init__(self, members: Members, follower: int, leader: int, offset: int) -> None:
        fetchers = members.brokers[follower].replication._fetchers
        assert fetchers is not None
        line: Any = fetchers._by_source[leader]._connection.current
        self._send = line.start
        self._offset = offset
        self._arrives = False
        self.late: list[tuple[FetchRequest, int, asyncio.Future[Any]]] = []
        line.start = self._start

    def _start(self, request: FetchRequest, *, version: int) -> "asyncio.Future[Any]":
        offsets = [each.fetch_offset for topic in request.topics for each in topic.partitions]
        if self._arrives or not (self.late or self._offset in offsets):
            return self._send(request, version=version)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.late.append((request, version, answer))
        return answer

    def arrive(self) -> None:
        self._arrives = True
        for request, version, answer in self.late:
            sent = self._send(request, version=version)
            sent.add_done_callback(lambda done, answer=answer: answer.set_result(done.result()))


def test_a_late_fetch_does_not_return_a_damaged_follower_to_the_isr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count as in sync with truncated records, and might be elected."""
    ends: list[int] = []  # of the follower's log, whenever it joins

    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            await create(members)
            for value in VALUES:
                await produce(members, value)
            await until(lambda: log_of(members, 3).log_end_offset == COUNT, "3 has all")
            decide = alter_partition.alter_partitions

            def decided(image: MetadataImage, *asked: Any) -> ControllerResult[IsrResult]:
                for change in asked[-1]:
                    known = image.topics_by_id[change.topic_id].partition(change.index)
                    if known and 3 in {each.broker_id for each in change.isr} - {*known.isr}:
                        ends.append(log_of(members, 3).log_end_offset)
                return decide(image, *asked)

            monkeypatch.setattr(alter_partition, "alter_partitions", decided)
            flip(tmp_path / "3")
            line = LateLine(members, 3, 1, COUNT + 1)
            data = TopicProduceData(
                name="orders", partition_data=[PartitionProduceData(records=batch(b"more"))]
            )
            alone = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[data])
            await members.ask(1, alone, ProduceResponse, version=12)
            await until(lambda: line.late, "3 has told that it has it, and 1 has not heard")
            assert (await fetch(members, 3, DAMAGED, "rack-3"))[0]
            for number in range(3):  # until it has left the ISR and is truncated
                members.brokers[3].replication.resign_from_failed()
                await create_orders(members, name=f"another-{number}")
            line.arrive()
            await until(lambda: ends, "3 is back")
            await all_alike(members, [*VALUES, b"more"])
            assert min(ends) == COUNT + 1

    run(test())


@pytest.mark.parametrize("damage", [flip, shorten, remove, remove_with_indexes, remove_first])
@pytest.mark.parametrize("id_", [1, 3])
def test_data_lost_by_a_stopped_replica_is_copied_again(
    id_: int, damage: Damage, tmp_path: Path
) -> None:
    """This holds whether or not it leads after its return."""

    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            await create(members)
            for value in VALUES:
                await produce(members, value)
            await members.stop(id_)
            damage(tmp_path / str(id_))
            await members.start(id_)
            await until(lambda: id_ in members.partition(2).isr or damage is not flip, "back")
            if damage is flip:  # no client has read it yet
                with pytest.raises(RecordsDamaged):
                    values(members, id_)
            await produce(members, b"more")
            await until(lambda: not log_of(members, id_).is_damaged, "it is repaired")
            await all_alike(members, [*VALUES, b"more"])

    run(test())


@pytest.mark.parametrize("damage", [remove, remove_with_indexes])
def test_data_lost_by_a_killed_replica_is_copied_again(damage: Damage, tmp_path: Path) -> None:
    """There is no list of its segments: adjacent segments show the gap."""

    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            await create(members)
            for value in VALUES:
                await produce(members, value)
            await until(lambda: log_of(members, 3).log_end_offset == COUNT, "3 has all")
            log_of(members, 3).flush()
            members.brokers[3].logs.checkpoint()
            members.kill(3)
            members.sessions[3].expire()
            damage(tmp_path / "3")
            await members.start(3)
            await until(lambda: not log_of(members, 3).is_damaged, "it is repaired")
            await all_alike(members, VALUES)

    run(test())


def test_a_replica_that_cannot_be_compacted_is_repaired_and_then_compacted(tmp_path: Path) -> None:
    async def test() -> None:
        settings = SETTINGS | {"log.cleaner.backoff.ms": "3600000"}  # when the test allows it
        async with Members(tmp_path, settings=settings) as members:
            compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
            await create(members, **compacted)
            for number, value in enumerate(VALUES):
                await produce(members, value, b"%d" % (number % 7))
            await until(lambda: log_of(members, 3).log_end_offset == COUNT, "3 has all")
            log_of(members, 3).flush()
            flip(tmp_path / "3")
            cleaner = members.brokers[3].cleaner
            await cleaner.run_pass()
            assert [each.until_repaired for each in cleaner.status.uncleanable] == [True]
            await until(lambda: 3 not in members.partition(3).isr, "3 is not in sync")
            await all_alike(members, VALUES)
            log_of(members, 3).flush()
            await cleaner.run_pass()
            assert cleaner.status.uncleanable == ()
            assert cleaner.status.logs_cleaned == 1

    run(test())


def test_a_sole_replica_serves_its_intact_data(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, count=1, settings={"min.insync.replicas": "1"}) as members:
            new = CreatableTopic(
                name="orders",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="segment.bytes", value=str(SEGMENT_BYTES))],
            )
            await members.ask(1, CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
            for value in VALUES:
                await produce(members, value)
            flip(tmp_path / "1")
            served: dict[int, bytes | None] = {}
            refused = set()
            for offset in range(COUNT):
                code, found = await fetch(members, 1, offset)
                served.update(enumerate(found, offset))
                if code == ErrorCode.CORRUPT_MESSAGE:
                    refused.add(offset)
            assert len(refused) == 1
            assert served == {at: v for at, v in enumerate(VALUES) if at not in refused}
            await produce(members, b"more")
            assert members.partition(1).leader == 1

    run(test())
