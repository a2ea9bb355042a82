"""The simulated ZooKeeper answers as the real one does, operation by operation."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import pytest

from headrace.cluster.stores.kazoo_client import KazooZooKeeper
from headrace.cluster.stores.zookeeper_client import (
    CheckVersion,
    Create,
    Delete,
    Op,
    OpFailed,
    Reason,
    SessionState,
    SetData,
    ZooKeeperClient,
)
from headrace.cluster.stores.zookeeper_settings import ZooKeeperSettings
from headrace.testing.simulated_zookeeper import SimulatedZooKeeper
from headrace.zookeeper_server import ZooKeeperServer
from support.brokers.cluster_stores import until
from support.brokers.virtual_loop import run_virtually

CHROOT = "/some/where"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


class Clients:
    """Clients of one ZooKeeper below one chroot."""

    def __init__(self, server: ZooKeeperServer | None, chroot: str) -> None:
        self._simulated = SimulatedZooKeeper()
        self._server = server
        self._chroot = chroot
        self._started: list[ZooKeeperClient] = []

    async def start(self) -> ZooKeeperClient:
        client: ZooKeeperClient
        if self._server is None:
            name = f"client-{len(self._started)}"
            client = self._simulated.client(name, session_timeout_s=60, chroot=self._chroot)
        else:
            address = self._server.address + self._chroot
            client = KazooZooKeeper(
                ZooKeeperSettings(address, session_timeout_s=60, connection_timeout_s=60)
            )
        await client.start()
        self._started.append(client)
        return client

    def run(self, test: Coroutine[Any, Any, None]) -> None:
        async def main() -> None:
            try:
                await test
            finally:
                for client in self._started:
                    await client.close()

        if self._server is None:
            run_virtually(main())
        else:
            asyncio.run(main())


@pytest.fixture(params=["simulated", "real"])
def clients(request: pytest.FixtureRequest) -> Clients:
    if request.param == "simulated":
        return Clients(None, CHROOT)
    server: ZooKeeperServer = request.getfixturevalue("zookeeper")
    return Clients(server, f"{CHROOT}/{request.node.originalname}")


FAILURES: Sequence[tuple[Sequence[Op], int, Reason]] = [
    ([Create("/a")], 0, Reason.EXISTS),
    ([Create("/new/child")], 0, Reason.MISSING),
    ([SetData("/nobody", b"")], 0, Reason.MISSING),
    ([SetData("/a", b"", 7)], 0, Reason.VERSION),
    ([Delete("/nobody")], 0, Reason.MISSING),
    ([Delete("/a")], 0, Reason.NOT_EMPTY),
    ([Delete("/a", 7)], 0, Reason.VERSION),
    ([Delete("/a/b", 7)], 0, Reason.VERSION),
    ([CheckVersion("/a", 7)], 0, Reason.VERSION),
    ([CheckVersion("/nobody", 0)], 0, Reason.MISSING),
    ([Create("/x"), SetData("/a", b"2"), Delete("/a/b"), CheckVersion("/x", 1)], 3, Reason.VERSION),
    ([Create("/x"), Delete("/x"), Create("/x"), Create("/x")], 3, Reason.EXISTS),
    ([SetData("/a", b"1", 0), SetData("/a", b"2", 0)], 1, Reason.VERSION),
    ([CheckVersion("/a", 1), Create("/y"), Create("/a")], 0, Reason.VERSION),
]


def test_errors_name_the_operation_and_change_nothing(clients: Clients) -> None:
    async def test() -> None:
        client = await clients.start()
        await client.multi([Create("/a", b"1"), Create("/a/b"), Create("/ephemeral", b"", True)])
        before = await client.get_many(["/a", "/a/b", "/x", "/y"])
        for ops, index, reason in FAILURES:
            with pytest.raises(OpFailed) as refused:
                await client.multi(ops)
            assert (refused.value.index, refused.value.reason) == (index, reason), ops
            assert refused.value.path == ops[index].path
        assert await client.get_many(["/a", "/a/b", "/x", "/y"]) == before
        assert await client.children("/") == ["a", "ephemeral"]

    clients.run(test())


def test_versions_and_transaction_ids_distinguish_incarnations_and_changes(
    clients: Clients,
) -> None:
    async def test() -> None:
        client = await clients.start()
        await client.multi([Create("/a", b"1"), Create("/b", b"1", True)])
        a, b = await client.get_many(["/a", "/b"])
        assert a is not None
        assert b is not None
        assert a[1].czxid == b[1].czxid == a[1].mzxid  # one write, one id
        assert (a[1].ephemeral_owner, b[1].ephemeral_owner) == (0, client.session_id)
        (stat,) = await client.multi([SetData("/a", b"2")])
        assert stat is not None
        assert (stat.version, stat.czxid) == (1, a[1].czxid)
        assert stat.mzxid > a[1].mzxid
        await client.multi([Delete("/a"), Create("/a", b"3")])
        again = await client.get("/a")
        assert again is not None
        assert again[1].czxid > stat.mzxid
        assert again[1].version == 0
        assert await client.get("/nobody") is None
        assert await client.children("/nobody") is None

    clients.run(test())


def test_each_watch_fires_once_for_its_znode(clients: Clients) -> None:
    async def test() -> None:
        client, other = await clients.start(), await clients.start()
        await client.multi([Create("/a"), Create("/a/b")])
        calls: list[str] = []
        await client.get("/a", lambda: calls.append("data of a"))
        await client.children("/a", lambda: calls.append("children of a"))
        await client.get("/new", lambda: calls.append("birth of new"))
        await client.children("/later", lambda: calls.append("birth of later"))

        async def expect(*expected: str) -> None:
            async def all_called() -> bool:
                return len(calls) >= len(expected)

            await until(all_called, f"calls of {expected}")
            assert sorted(calls) == sorted(expected)
            calls.clear()

        await other.multi([SetData("/a/b", b"not watched"), Create("/other")])
        await other.multi([SetData("/a", b"1")])
        await expect("data of a")
        await other.multi([SetData("/a", b"2"), Create("/new")])  # the first was watched once
        await expect("birth of new")
        await other.multi([Delete("/a/b"), Create("/a/b")])  # looks the same but is a new znode
        await expect("children of a")
        await other.multi([Create("/later")])
        await expect("birth of later")
        await client.get("/a/b", lambda: calls.append("data of b"))
        await client.children("/a/b", lambda: calls.append("children of b"))
        await other.multi([Delete("/a/b")])
        await expect("data of b", "children of b")

    clients.run(test())


def test_a_closed_session_deletes_its_ephemeral_znodes(clients: Clients) -> None:
    async def test() -> None:
        client, other = await clients.start(), await clients.start()
        states: list[SessionState] = []
        other.on_state(states.append)
        await client.multi([Create("/mine", b"", True), Create("/kept")])
        gone = asyncio.Event()
        assert await other.get("/mine", gone.set) is not None
        await client.close()
        async with asyncio.timeout(60):
            await gone.wait()
        assert await other.children("/") == ["kept"]
        assert states == []

    clients.run(test())
