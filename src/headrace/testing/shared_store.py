"""The metadata store of a test cluster: in memory, in its own thread, with sessions that expire.

Each broker has a session, as with ZooKeeper. The session lasts as long as the broker sends
heartbeats. It expires after its timeout if the broker was killed, is paused or is cut off from the
store, and all other brokers are notified.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.metadata_store import ConnectionSuspended, Elected, Registration
from headrace.cluster.stores.embedded import EmbeddedCluster, EmbeddedStore
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from headrace.cluster.topology import BrokerRegistration

if TYPE_CHECKING:
    from headrace.local_security import FirstUsers

T = TypeVar("T")

SESSION_TIMEOUT_S: Final = 2.0
CALL_TIMEOUT_S: Final = 30.0


class SharedStore:
    """One store for all brokers of a cluster; `close` ends its thread."""

    def __init__(
        self, session_timeout_s: float = SESSION_TIMEOUT_S, first: "FirstUsers | None" = None
    ) -> None:
        self.session_timeout_s = session_timeout_s
        self.loop = asyncio.new_event_loop()
        self._sessions: dict[int, StoreSession] = {}
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="headrace-store", daemon=True
        )
        self._thread.start()
        self._cluster = self._call(lambda: _make_cluster(first))

    def session(self, broker_id: int) -> "StoreSession":
        """Opens a session; ends an earlier session of the broker, whose process has ended."""
        before = self._sessions.get(broker_id)
        if before is not None:
            self._on_loop(before.expire)
        session = self._sessions[broker_id] = StoreSession(self, self._cluster.store())
        return session

    def silence(self, broker_id: int) -> None:
        """Stops the broker's heartbeats: its session expires after the timeout."""
        session = self._sessions.get(broker_id)
        if session is not None:
            self._on_loop(session.count_down)

    def cut_off(self, broker_id: int) -> None:
        """Like `silence`; in addition, the broker's requests to the store fail."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.cut()
            self._on_loop(session.count_down)

    def resume(self, broker_id: int) -> None:
        """Resumes the broker's heartbeats, and delivers the notifications it missed."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.reconnect()
            self._on_loop(session.recover)

    def close(self) -> None:
        self._on_loop(self._cluster.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self.loop.close()

    def _on_loop(self, call: Callable[[], None]) -> None:
        async def made() -> None:
            call()

        self._call(made)

    def _call(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(CALL_TIMEOUT_S)


async def _make_cluster(first: "FirstUsers | None") -> EmbeddedCluster:
    store = SqliteStore(IN_MEMORY)
    if first is not None:
        from headrace.local_security import add_first_users

        add_first_users(store, first)
    return EmbeddedCluster(store)


class StoreSession:
    """A `ClusterStore` for one broker, which runs on another loop than the store."""

    def __init__(self, shared: SharedStore, store: EmbeddedStore) -> None:
        self._shared = shared
        self._store = store
        self._cut_at: float | None = None
        self._missed: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_cut(self) -> bool:
        return self._cut_at is not None

    def cut(self) -> None:
        self._cut_at = time.monotonic()

    def reconnect(self) -> None:
        self._cut_at = None

    @property
    def disconnected_s(self) -> float | None:
        at = self._cut_at
        return None if at is None else time.monotonic() - at

    # --- called on the store's loop --------------------------------------------------------------

    def count_down(self) -> None:
        if self._timer is None:
            self._timer = self._shared.loop.call_later(self._shared.session_timeout_s, self.expire)

    def recover(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        missed, self._missed = self._missed, []
        for loop, call in missed:
            _call_on_loop(loop, call)

    def expire(self) -> None:
        self._timer = None
        self._store.expire()

    # --- called by the broker, on its own loop ---------------------------------------------------

    async def open(self) -> None:
        await self._on_store_loop(self._store.open)

    async def close(self) -> None:
        await self._on_store_loop(self._store.close)

    async def cluster_id(self, proposed: str) -> str:
        return await self._on_store_loop(lambda: self._store.cluster_id(proposed))

    async def stored_cluster_id(self) -> str:
        return await self._on_store_loop(self._store.stored_cluster_id)

    async def stored_version(self) -> int:
        return await self._on_store_loop(self._store.stored_version)

    async def next_broker_id(self, above: int) -> int:
        return await self._on_store_loop(lambda: self._store.next_broker_id(above))

    async def register(
        self,
        broker: BrokerRegistration,
        *,
        clean_shutdown_epoch: int | None = None,
        storage_id: str = "",
        deadline_s: float | None = None,
    ) -> int:
        return await self._on_store_loop(
            lambda: self._store.register(
                broker,
                clean_shutdown_epoch=clean_shutdown_epoch,
                storage_id=storage_id,
                deadline_s=deadline_s,
            )
        )

    async def registered(
        self, changed: Callable[[], None] | None = None
    ) -> Mapping[int, Registration]:
        watch = self._on_broker_loop(changed)
        return await self._on_store_loop(lambda: self._store.registered(watch))

    async def fence(self, elected: Elected, broker_id: int, broker_epoch: int) -> bool:
        return await self._on_store_loop(
            lambda: self._store.fence(elected, broker_id, broker_epoch)
        )

    async def controller(self, changed: Callable[[], None] | None = None) -> tuple[int, int] | None:
        watch = self._on_broker_loop(changed)
        return await self._on_store_loop(lambda: self._store.controller(watch))

    async def elect(
        self, node_id: int, *, instead_of: tuple[int, int] | None = None
    ) -> Elected | None:
        return await self._on_store_loop(lambda: self._store.elect(node_id, instead_of=instead_of))

    async def resign(self, elected: Elected) -> None:
        await self._on_store_loop(lambda: self._store.resign(elected))

    async def load(self) -> MetadataImage:
        return await self._on_store_loop(self._store.load)

    async def commit(self, records: Sequence[MetadataRecord], elected: Elected) -> None:
        await self._on_store_loop(lambda: self._store.commit(records, elected))

    def on_lost(self, lost: Callable[[], None]) -> None:
        callback = self._on_broker_loop(lost)
        assert callback is not None
        self._store.on_lost(callback)

    async def _on_store_loop(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self.is_cut:
            raise ConnectionSuspended("a test has cut this broker off from the store")
        asked = asyncio.run_coroutine_threadsafe(call(), self._shared.loop)
        return await asyncio.wrap_future(asked)

    def _on_broker_loop(self, call: Callable[[], None] | None) -> Callable[[], None] | None:
        """Wraps a callback: it runs on the broker's loop, later if the broker is cut off."""
        if call is None:
            return None
        loop = asyncio.get_running_loop()

        def callback() -> None:
            if self.is_cut:
                self._missed.append((loop, call))
            else:
                _call_on_loop(loop, call)

        return callback


def _call_on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:  # the broker has ended
        return
