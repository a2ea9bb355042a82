"""All implementations of the cluster store, each with the faults that it can have."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from kazoo.client import KazooClient

from headrace.clock import SystemClock
from headrace.cluster.metadata_store import ClusterStore
from headrace.cluster.stores.embedded import EmbeddedCluster, EmbeddedStore
from headrace.cluster.stores.kazoo_client import KazooZooKeeper
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from headrace.cluster.stores.zookeeper_settings import ZooKeeperSettings
from headrace.cluster.stores.zookeeper_store import ZooKeeperStore
from headrace.testing.simulated_zookeeper import SimulatedZooKeeper
from support.brokers.virtual_loop import run_virtually

LONG_SESSION_S = 60.0
"""Long enough that no session expires on a busy machine."""

DEADLINE_S = 60.0


class World(Protocol):
    """The environment of the stores. Each session has a name."""

    def run(self, main: Coroutine[Any, Any, None]) -> None: ...

    async def store(self, name: str, *, session_timeout_s: float = LONG_SESSION_S) -> ClusterStore:
        """Opens a new session."""
        ...

    async def expire(self, name: str) -> None:
        """Expires a session whose process is still running."""
        ...

    async def close(self) -> None:
        """Closes all remaining sessions."""
        ...


class LinkedWorld(World, Protocol):
    """A world whose stores have a connection that can fail."""

    async def drop(self, name: str) -> None:
        """Closes the connection. The client can reconnect at once."""
        ...

    async def cut_off(self, name: str) -> None:
        """Stops all traffic until `heal`."""
        ...

    async def heal(self, name: str) -> None: ...


class EmbeddedWorld:
    """All brokers in one process on SQLite."""

    def __init__(self, path: Path | str = IN_MEMORY) -> None:
        self._cluster: EmbeddedCluster | None = None
        self._path = path
        self._stores: dict[str, EmbeddedStore] = {}

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        run_virtually(main)

    async def store(self, name: str, *, session_timeout_s: float = LONG_SESSION_S) -> ClusterStore:
        if self._cluster is None:
            self._cluster = EmbeddedCluster(SqliteStore(self._path))
        store = self._stores[name] = self._cluster.store()
        await store.open()
        return store

    async def expire(self, name: str) -> None:
        self._stores[name].expire()

    async def close(self) -> None:
        for store in self._stores.values():
            await store.close()
        if self._cluster is not None:
            self._cluster.close()


class SimulatedWorld:
    """Stores over the simulated ZooKeeper, in virtual time."""

    def __init__(self, delay: Callable[[], float] = lambda: 0.0005) -> None:
        self.zookeeper = SimulatedZooKeeper(delay=delay)
        self._stores: list[ClusterStore] = []

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        run_virtually(main)

    async def store(self, name: str, *, session_timeout_s: float = LONG_SESSION_S) -> ClusterStore:
        client = self.zookeeper.client(name, session_timeout_s=session_timeout_s)
        store = ZooKeeperStore(client, SystemClock())
        self._stores.append(store)
        await store.open()
        return store

    async def expire(self, name: str) -> None:
        self.zookeeper.expire(name)

    async def drop(self, name: str) -> None:
        self.zookeeper.drop(name)

    async def cut_off(self, name: str) -> None:
        self.zookeeper.cut_off(name)

    async def heal(self, name: str) -> None:
        self.zookeeper.heal(name)

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class RealWorld:
    """Stores over a real ZooKeeper, each with its own proxy, below a chroot for the test."""

    def __init__(self, address: str, *, proxied: bool = True) -> None:
        self._address = address
        self._proxied = proxied
        self.chroot = f"/test-{uuid.uuid4().hex}"
        self._proxies: dict[str, Proxy] = {}
        self._clients: dict[str, KazooZooKeeper] = {}
        self._stores: list[ClusterStore] = []

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    async def store(self, name: str, *, session_timeout_s: float = LONG_SESSION_S) -> ClusterStore:
        address = self._address
        if self._proxied:
            proxy = self._proxies.get(name)
            if proxy is None:
                proxy = self._proxies[name] = Proxy(address)
                await proxy.start()
            address = proxy.address
        settings = ZooKeeperSettings(
            address + self.chroot,
            session_timeout_s=session_timeout_s,
            connection_timeout_s=DEADLINE_S,
        )
        client = self._clients[name] = KazooZooKeeper(settings)
        store = ZooKeeperStore(client, SystemClock())
        self._stores.append(store)
        await store.open()
        return store

    async def expire(self, name: str) -> None:
        """A client that knows a session's password can end it from anywhere."""
        kazoo = self._clients[name]._kazoo
        session = (kazoo._session_id, kazoo._session_passwd)

        def end() -> None:
            thief = KazooClient(self._address, client_id=session, timeout=LONG_SESSION_S)
            thief.start(DEADLINE_S)
            thief.stop()
            thief.close()

        await asyncio.to_thread(end)

    async def drop(self, name: str) -> None:
        await self._proxies[name].drop()

    async def cut_off(self, name: str) -> None:
        self._proxies[name].open.clear()

    async def heal(self, name: str) -> None:
        self._proxies[name].open.set()

    async def close(self) -> None:
        for proxy in self._proxies.values():
            proxy.open.set()
        for store in self._stores:
            await store.close()
        for proxy in self._proxies.values():
            await proxy.stop()


class Proxy:
    """Passes bytes between a client and ZooKeeper while `open` is set."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self.open = asyncio.Event()
        self.open.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self.drop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        await self.open.wait()
        try:
            back, forth = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(forth)
        for source, sink in ((reader, forth), (back, writer)):
            task = asyncio.get_running_loop().create_task(self._pump(source, sink, writer, forth))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        *both: asyncio.StreamWriter,
    ) -> None:
        try:
            while data := await source.read(65536):
                await self.open.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            for writer in both:
                writer.transport.abort()
                self._writers.discard(writer)


async def until(
    condition: Callable[[], Awaitable[bool]], what: str, *, deadline_s: float = DEADLINE_S
) -> None:
    """Waits for a condition, by the loop's clock."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + deadline_s
    while not await condition():
        if loop.time() > give_up:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        await asyncio.sleep(0.02)
