"""Several brokers of one cluster on one event loop, with a store in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar

from headrace.broker.membership.peers import Peers
from headrace.broker.node import Broker
from headrace.broker.runtime.environment import Environment
from headrace.client.network.connection import Address
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.stores.embedded import EmbeddedCluster, EmbeddedStore
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from headrace.cluster.topology import Partition
from headrace.protocol.struct import Struct
from headrace.storage.files.filesystem import FileSystem, RealFileSystem

R = TypeVar("R", bound=Struct)

DEADLINE_S = 30.0
PAUSE_S = 0.005
A_CLIENT = -1


class Members:
    """Brokers 1 to `count`. Sessions of the store never expire by themselves."""

    def __init__(
        self, directory: Path, count: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        self._directory = directory
        self._settings = dict(settings or {})
        self.store = EmbeddedCluster(SqliteStore(IN_MEMORY))
        self.sessions: dict[int, EmbeddedStore] = {}
        self.brokers: dict[int, Broker] = {}
        self._ids = range(1, count + 1)
        self._client = Peers(A_CLIENT, self._address)
        self._client._client_id = "a client"

    async def __aenter__(self) -> Self:
        await asyncio.gather(*(self.start(id_) for id_ in self._ids))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.hang_up()
        for broker in self.brokers.values():
            broker.abort()
        await asyncio.sleep(0)
        self.store.close()

    async def start(
        self,
        id_: int,
        settings: Mapping[str, str] | None = None,
        files: FileSystem | None = None,
    ) -> Broker:
        """Starts a broker for the first time, or restarts it on the same data."""
        named = {
            "broker.id": str(id_),
            "broker.rack": f"rack-{id_}",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self._directory / str(id_)),
        }
        session = self.sessions[id_] = self.store.store()
        environment = Environment(cluster_store=lambda *_: session, files=files or RealFileSystem())
        parsed = BrokerSettings.parse(named | self._settings | dict(settings or {}))
        broker = Broker(parsed, environment=environment)
        await broker.start()
        self.brokers[id_] = broker
        return broker

    def kill(self, id_: int) -> None:
        """Like kill -9: sockets close without a message, and the store's session stays."""
        self.brokers.pop(id_).abort()

    async def stop(self, id_: int) -> None:
        await self.brokers.pop(id_).stop()

    @property
    def controller(self) -> int:
        """The active controller; 0 if there is none."""
        return next((id_ for id_, broker in self.brokers.items() if broker.is_controller), 0)

    def partition(self, id_: int, topic: str = "orders", index: int = 0) -> Partition:
        """The partition as one broker sees it."""
        found = self.brokers[id_].metadata.image.partition(topic, index)
        assert found is not None
        return found

    def agree(self) -> bool:
        """Whether all brokers have the same metadata."""
        versions = {broker.metadata.image.version for broker in self.brokers.values()}
        return len(versions) == 1

    async def ask(
        self, id_: int, request: Struct, answer: type[R], version: int | None = None
    ) -> R:
        """The response of one broker to a client's request."""
        return await self._client.request(
            id_, request, answer, timeout_s=DEADLINE_S, version=version
        )

    def _address(self, id_: int) -> Address | None:
        if id_ not in self.brokers:
            return None
        endpoint = self.brokers[id_].endpoints[0]
        return Address(endpoint.host, endpoint.port)


async def until(condition: Callable[[], object], what: str) -> None:
    """Returns when the condition holds; fails with `what` after a deadline."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - anything may make it true
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise AssertionError(f"not within {DEADLINE_S} s: {what}") from None


def run(test: Awaitable[None]) -> None:
    async def main() -> None:
        await test

    asyncio.run(main())
