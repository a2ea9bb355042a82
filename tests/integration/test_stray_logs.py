"""Logs unknown to the cluster become stray logs, not deleted, and older metadata is rejected."""

from pathlib import Path

import pytest

from headrace.broker.runtime.errors import StartupError
from headrace.cluster.image_records import records_of
from headrace.cluster.stores.embedded import EmbeddedCluster
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.storage.directories.log_directory import CLEAN_SHUTDOWN
from headrace.storage.directories.metadata_version_file import METADATA_VERSION
from support.brokers.members import Members, run, until
from support.brokers.orders_topic import create, produce, values

ALL = (1, 2, 3)


async def delete(members: Members) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")])
    answer = await members.ask(1, request, DeleteTopicsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE
    await until(members.agree, "everybody knows")


def backup(members: Members, writes: int = 1) -> EmbeddedCluster:
    """A store with the current content, written in the given number of writes."""
    store = SqliteStore(IN_MEMORY)
    version = store.commit(
        list(records_of(members.brokers[1].metadata.image)), expected_version=store.load().version
    )
    for _ in range(writes - 1):
        version = store.commit([], expected_version=version)
    return EmbeddedCluster(store)


async def stop_all(members: Members) -> None:
    for id_ in ALL:
        await members.stop(id_)


async def start_all(members: Members, store: EmbeddedCluster) -> None:
    members.store = store
    for id_ in ALL:
        await members.start(id_)
    await until(members.agree, "everybody is there")


def aside(data: Path, id_: int) -> list[Path]:
    return list((data / str(id_)).glob("orders-0.*-stray"))


def take_any(data: Path) -> None:
    """Follows the advice in the error of a broker that refuses to start."""
    for id_ in ALL:
        (data / str(id_) / METADATA_VERSION).write_text("any\n")


def test_a_topic_deleted_while_a_broker_was_down_is_kept_as_stray_for_a_limited_time(
    tmp_path: Path,
) -> None:
    """The topic does not return, even under the same name, and is deleted eventually."""

    async def test() -> None:
        async with Members(tmp_path) as members:
            await create(members)
            assert (await produce(members, 1, b"old")).error_code == ErrorCode.NONE
            await members.stop(3)
            await delete(members)
            await members.start(3)
            assert members.brokers[3].logs.get("orders", 0) is None
            assert len(aside(tmp_path, 3)) == 1
            await until(members.agree, "3 is there")
            await create(members)
            assert (await produce(members, 1, b"new")).error_code == ErrorCode.NONE
            await until(lambda: values(members, 3) == [b"new"], "3 has the new one")
            await members.stop(3)
            quickly = {
                "headrace.stray.log.retention.ms": "1",
                "log.retention.check.interval.ms": "20",
            }
            await members.start(3, quickly)
            await until(lambda: not aside(tmp_path, 3), "its time is over")
            assert values(members, 3) == [b"new"]

    run(test())


def test_a_deleted_empty_topic_leaves_no_files(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            await create(members)
            await until(lambda: (tmp_path / "3" / "orders-0").exists(), "3 has a log")
            await members.stop(3)
            await delete(members)
            await members.start(3)
            assert members.brokers[3].logs.get("orders", 0) is None
            assert not aside(tmp_path, 3)

    run(test())


def test_a_broker_refuses_older_metadata_and_keeps_its_logs(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            newer, older = members.store, backup(members)
            await create(members)
            assert (await produce(members, 1, b"acknowledged")).error_code == ErrorCode.NONE
            await stop_all(members)
            members.store = older
            with pytest.raises(StartupError, match="restored from an old backup"):
                await members.start(1)
            assert not older.registrations
            assert (tmp_path / "1" / CLEAN_SHUTDOWN).exists()
            await start_all(members, newer)
            assert values(members, 1) == [b"acknowledged"]
            older.close()

    run(test())


def test_logs_missing_from_older_metadata_return_when_newer_metadata_is_restored(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            newer, older = members.store, backup(members)
            await create(members, configs={"min.insync.replicas": "2"})
            for value in (b"one", b"two"):
                assert (await produce(members, 1, value)).error_code == ErrorCode.NONE
            await until(lambda: values(members, 3) == [b"one", b"two"], "3 has it")
            await stop_all(members)
            take_any(tmp_path)
            await start_all(members, older)
            assert [len(aside(tmp_path, id_)) for id_ in ALL] == [1, 1, 1]
            await stop_all(members)
            take_any(tmp_path)
            await start_all(members, newer)
            assert [len(aside(tmp_path, id_)) for id_ in ALL] == [0, 0, 0]
            assert [values(members, id_) for id_ in ALL] == [[b"one", b"two"]] * 3
            await until(lambda: len(members.partition(1).isr) >= 2, "it can be written")
            leader = members.partition(1).leader
            answer = await produce(members, leader, b"three")
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 2)
            older.close()

    run(test())


def test_a_running_broker_keeps_unknown_logs_as_stray(tmp_path: Path) -> None:
    """A ZooKeeper backup that other brokers have used since, so its version is higher again."""

    async def test() -> None:
        async with Members(tmp_path) as members:
            newer, older = members.store, backup(members, writes=100)
            await create(members)
            assert (await produce(members, 1, b"acknowledged")).error_code == ErrorCode.NONE
            for session in members.sessions.values():
                session.expire()
                session._cluster = older
            await until(
                lambda: all(members.brokers[id_].logs.get("orders", 0) is None for id_ in ALL),
                "all believe it",
            )
            assert [len(aside(tmp_path, id_)) for id_ in ALL] == [1, 1, 1]
            older.close()
            members.store = newer

    run(test())


def test_partitions_recover_from_a_backup_with_older_leader_epochs(tmp_path: Path) -> None:
    """Nothing is truncated and no epoch is reused: replicas agree and are in sync again."""

    async def test() -> None:
        async with Members(tmp_path, settings={"min.insync.replicas": "2"}) as members:
            await create(members)
            assert (await produce(members, 1, b"before")).error_code == ErrorCode.NONE
            newer, older = members.store, backup(members)
            for id_ in (1, 2):
                await members.stop(id_)
                leader = members.partition(3).leader
                assert (await produce(members, leader, b"%d" % id_)).error_code == ErrorCode.NONE
                await members.start(id_)
                await until(lambda: len(members.partition(3).isr) == 3, "all are in sync")
            expected = [b"before", b"1", b"2"]
            for id_ in ALL:
                await until(lambda id_=id_: values(members, id_) == expected, "all have it")
            epoch = members.partition(1).leader_epoch
            await stop_all(members)
            take_any(tmp_path)
            await start_all(members, older)
            await until(lambda: len(members.partition(1).isr) == 3, "all are in sync")
            assert members.partition(1).leader_epoch > epoch
            leader = members.partition(1).leader
            answer = await produce(members, leader, b"after")
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 3)
            for id_ in ALL:
                await until(
                    lambda id_=id_: values(members, id_) == [*expected, b"after"], "all go on"
                )
            older.close()
            members.store = newer

    run(test())
