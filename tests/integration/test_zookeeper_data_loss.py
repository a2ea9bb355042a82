"""ZooKeeper returns without its data or with older data: running brokers delete nothing."""

import asyncio
from pathlib import Path

import pytest

from headrace.cluster.stores.embedded import EmbeddedCluster
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from headrace.controller.topic_changes import NewTopic
from support.brokers.members import Members, run, until

STOP_S = 20.0
"""More than headrace.stop.timeout.ms and a controller's last words."""


def lose(members: Members, empty: EmbeddedCluster) -> None:
    """Ends all sessions; new sessions connect to another store."""
    for session in members.sessions.values():
        session.expire()
        session._cluster = empty


def logs(members: Members) -> int:
    return sum(broker.logs.get("orders", 0) is not None for broker in members.brokers.values())


@pytest.mark.parametrize("cluster_id", ["", "another"])
def test_brokers_that_find_an_empty_store_keep_their_topics(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cluster_id: str
) -> None:
    """The empty store has a new cluster id as soon as a broker starts on it."""

    def refused() -> bool:
        texts = [f"{each.getMessage()} {each.__dict__.get('error')}" for each in caplog.records]
        return sum("the metadata store belongs to" in text for text in texts) >= 3

    async def test() -> None:
        async with Members(tmp_path) as members:
            new = NewTopic("orders", assignments=[(0, [1, 2, 3])])
            await members.brokers[1].metadata.create_topics([new])
            await until(lambda: members.agree() and logs(members) == 3, "everybody has it")
            empty = EmbeddedCluster(SqliteStore(IN_MEMORY))
            if cluster_id:
                session = empty.store()
                await session.open()
                await session.cluster_id(cluster_id)
            lose(members, empty)
            await until(lambda: refused() or logs(members) < 3, "they have looked")
            assert logs(members) == 3
            assert not empty.registrations
            before = members.store
            for session in members.sessions.values():
                session._cluster = before
            await until(lambda: members.controller and members.agree(), "the store is back")
            empty.close()

    run(test())


def test_a_broker_does_not_join_with_older_metadata_than_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The store is a backup of ZooKeeper from before the topic was created."""

    def refused() -> bool:
        texts = [str(each.__dict__.get("error")) for each in caplog.records]
        return sum("was ZooKeeper restored from an old backup?" in text for text in texts) >= 3

    async def test() -> None:
        async with Members(tmp_path) as members:
            new = NewTopic("orders", assignments=[(0, [1, 2, 3])])
            await members.brokers[1].metadata.create_topics([new])
            await until(lambda: members.agree() and logs(members) == 3, "everybody has it")
            backup = EmbeddedCluster(SqliteStore(IN_MEMORY))
            session = backup.store()
            await session.open()
            assert members.brokers[1].cluster_id
            await session.cluster_id(members.brokers[1].cluster_id)
            lose(members, backup)
            await until(lambda: refused() or logs(members) < 3, "they have looked")
            assert logs(members) == 3
            assert not backup.registrations
            assert not members.controller
            backup.close()

    run(test())


def test_a_controller_stops_when_its_store_does_not_respond(tmp_path: Path) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async def test() -> None:
        quickly = {"headrace.stop.timeout.ms": "1000"}
        async with Members(tmp_path, count=1, settings=quickly) as members:
            session = members.sessions[1]
            session.commit = session.resign = never  # type: ignore[method-assign,assignment]
            async with asyncio.timeout(STOP_S):
                await members.stop(1)

    run(test())
