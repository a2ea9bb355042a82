"""A client of the simulated ZooKeeper: its connection, its session, its requests and watches."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from headrace.cluster.metadata_store import StoreError
from headrace.cluster.stores.zookeeper_client import (
    ConnectionSuspended,
    Create,
    Op,
    OpFailed,
    SessionExpired,
    SessionState,
    SetData,
    Stat,
    Watch,
    create_with_parents,
)
from headrace.testing.simulated_znodes import WatchKind, ZnodeTree

T = TypeVar("T")

MAX_REQUEST_BYTES: Final = 0xFFFFF
"""jute.maxbuffer: a larger request closes the connection."""

_RETRY_S: Final = 0.05
_OP_OVERHEAD_BYTES: Final = 60


@dataclass(slots=True)
class Connection:
    """One TCP connection. Messages arrive in order; while `blocked` they wait."""

    client: "SimulatedClient"
    session_id: int
    open: bool = True
    blocked: bool = False
    next_arrival: dict[str, float] = field(default_factory=dict)
    undelivered: deque[tuple[str, Callable[[], None]]] = field(default_factory=deque)
    notice: asyncio.TimerHandle | None = None


class Server(Protocol):
    """The interface of the server for its clients."""

    @property
    def tree(self) -> ZnodeTree: ...

    @property
    def running(self) -> bool: ...

    @property
    def delay(self) -> Callable[[], float]:
        """Seconds for one way over the network."""
        ...

    def connect(self, client: "SimulatedClient", session_id: int) -> tuple[int, bool]:
        """(session, whether it is the requested one); a new session if that has expired."""
        ...

    def attach_connection(self, connection: Connection) -> None: ...

    def connection_closed(self, connection: Connection) -> None: ...

    def drop(self, name: str) -> None: ...

    def end_session(self, session_id: int) -> None: ...

    def send(self, connection: Connection, way: str, message: Callable[[], None]) -> None: ...

    def serve(
        self, connection: Connection, request: Callable[[], T], answer: "asyncio.Future[T]"
    ) -> None: ...

    def next_watch_key(self) -> int: ...

    def watcher(self, connection: Connection, fired: Callable[[], None]) -> Callable[[], None]: ...


class SimulatedClient:
    """A `ZooKeeperClient` of the simulated server."""

    def __init__(
        self,
        server: Server,
        name: str,
        session_timeout_s: float,
        connection_timeout_s: float,
        chroot: str,
    ) -> None:
        self.name = name
        self.session_timeout_s = session_timeout_s
        self.session_id = 0
        self.state = SessionState.SUSPENDED
        self.servers = f"simulation{chroot}"
        self._server = server
        self._connection_timeout_s = connection_timeout_s
        self._chroot = chroot
        self.connection: Connection | None = None
        self._changed: list[Callable[[SessionState], None]] = []
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._watches: dict[int, Watch] = {}
        self.unreachable = False
        self.crashed = False
        self._closed = False
        self._retry: asyncio.TimerHandle | None = None
        self.loop: asyncio.AbstractEventLoop

    def on_state(self, changed: Callable[[SessionState], None]) -> None:
        self._changed.append(changed)

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        connected = asyncio.Event()

        def set_connected(state: SessionState) -> None:
            if state is SessionState.CONNECTED:
                connected.set()

        self._changed.append(set_connected)
        self._try_to_connect()
        try:
            async with asyncio.timeout(self._connection_timeout_s):
                await connected.wait()
        except TimeoutError:
            await self.close()
            raise StoreError(f"no answer from ZooKeeper at {self.servers}") from None
        finally:
            self._changed.remove(set_connected)
        await self._create_chroot()

    async def close(self) -> None:
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        connection, self.connection = self.connection, None
        if connection is not None and connection.open and not connection.blocked:
            self._server.end_session(connection.session_id)
        self._fail_pending()
        self.session_id = 0

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat] | None:
        tree, full = self._server.tree, self._full_path(path)

        def read() -> tuple[bytes, Stat] | None:
            self._set_watch("data", full, watch)
            node = tree.nodes.get(full)
            return None if node is None else (node.data, node.stat())

        return await self._send_request(read)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        return list(await asyncio.gather(*(self.get(path) for path in paths)))

    async def children(self, path: str, watch: Watch | None = None) -> list[str] | None:
        tree, full = self._server.tree, self._full_path(path)

        def read() -> list[str] | None:
            node = tree.nodes.get(full)
            self._set_watch("data" if node is None else "children", full, watch)
            return None if node is None else sorted(node.children)

        return await self._send_request(read)

    async def readable_by_anyone(self, paths: Sequence[str]) -> list[str]:
        return []  # the simulation has no ACLs

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        size = sum(_size(op) for op in ops)
        if size > MAX_REQUEST_BYTES:
            self._server.drop(self.name)
            raise ConnectionSuspended(f"a request of {size} bytes ends the connection")
        full = [op._replace(path=self._full_path(op.path)) for op in ops]

        def write() -> list[Stat | None]:
            try:
                return self._server.tree.write(full, self.session_id)
            except OpFailed as failed:
                path = failed.path.removeprefix(self._chroot)
                raise OpFailed(failed.index, failed.reason, path) from None

        return await self._send_request(write)

    # -- one request ----------------------------------------------------------------------------

    async def _send_request(self, request: Callable[[], T]) -> T:
        connection = self.connection
        if self.state is SessionState.EXPIRED:
            raise SessionExpired(f"the session of {self.name} has expired")
        if connection is None or self.state is not SessionState.CONNECTED:
            raise ConnectionSuspended(f"{self.name} is not connected to ZooKeeper")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending[answer] = None
        server = self._server
        server.send(connection, "request", lambda: server.serve(connection, request, answer))
        try:
            return await answer
        finally:
            self._pending.pop(answer, None)

    def _set_watch(self, kind: WatchKind, path: str, watch: Watch | None) -> None:
        if watch is None or self.connection is None:
            return
        server = self._server
        key = server.next_watch_key()
        self._watches[key] = watch

        def fired() -> None:
            called = self._watches.pop(key, None)
            if called is not None:
                called()

        server.tree.watch(kind, path, key, server.watcher(self.connection, fired))

    def _full_path(self, path: str) -> str:
        if path == "/":
            return self._chroot or path
        return self._chroot + path

    async def _create_chroot(self) -> None:
        chroot, self._chroot = self._chroot, ""
        try:
            await create_with_parents(self, chroot)
        finally:
            self._chroot = chroot

    # -- the session ----------------------------------------------------------------------------

    def _try_to_connect(self) -> None:
        self._retry = None
        if self._closed or self.crashed or self.connection is not None:
            return
        if self.unreachable or not self._server.running:
            self._connect_later(_RETRY_S)
            return
        session_id, known = self._server.connect(self, self.session_id)
        if not known:
            self.session_id = 0
            self._set_state(SessionState.EXPIRED)
            self._connect_later(self._server.delay())
            return
        self.session_id = session_id
        self.connection = Connection(self, session_id)
        self._server.attach_connection(self.connection)
        self._set_state(SessionState.CONNECTED)

    def _connect_later(self, delay_s: float) -> None:
        if self._retry is None and not self._closed and not self.crashed:
            self._retry = self.loop.call_later(delay_s, self._try_to_connect)

    def connection_broken(self, connection: Connection) -> None:
        """Handles the end of the connection on the client's side."""
        if self.connection is not connection or self.crashed:
            return
        self._server.connection_closed(connection)
        self.connection = None
        self._set_state(SessionState.SUSPENDED)
        self._fail_pending()
        watches, self._watches = self._watches, {}
        for key in watches:
            self._server.tree.unwatch(key)
        for watch in watches.values():
            self.loop.call_soon(watch)
        self._connect_later(self._server.delay())

    def _fail_pending(self) -> None:
        for answer in list(self._pending):
            if not answer.done():
                answer.set_exception(ConnectionSuspended(f"{self.name} lost its connection"))

    def _set_state(self, state: SessionState) -> None:
        if self.state is not state:
            self.state = state
            for changed in list(self._changed):
                changed(state)


def _size(op: Op) -> int:
    data = op.data if isinstance(op, Create | SetData) else b""
    return len(op.path) + len(data) + _OP_OVERHEAD_BYTES
