"""A ZooKeeper without Java, threads or real time, for simulations and quick tests.

    zookeeper = SimulatedZooKeeper()
    client = zookeeper.client("broker-1", session_timeout_s=6)
    await client.start()

Sessions, ephemeral znodes, versions, `multi`, watches and expiry work as in the real ZooKeeper;
both pass the same contract tests. All events are timers of the running loop. Only `delay` (seconds
for one way over the network) decides their order: the same delays give the same history.

Clients may run on other loops than the server, which then has its own loop: a client's loop may
end or pause while the server's time continues.

Faults: `cut_off` and `heal` (nothing passes between a client and the server), `drop` (the client's
connection breaks), `pause` and `resume` (the client's process, as by SIGSTOP), `crash` (the
client's process ends), `expire` (the server expires the session), `stop` and `start` (the server
ends and comes back with its data).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from headrace.cluster.store import StoreError
from headrace.cluster.stores.zookeeper_client import (
    ConnectionSuspended,
    Create,
    Op,
    OpFailed,
    Reason,
    SessionExpired,
    SessionState,
    SetData,
    Stat,
    Watch,
)
from headrace.testing.simulated_znodes import WatchKind, ZnodeTree

T = TypeVar("T")

MAX_REQUEST_BYTES: Final = 0xFFFFF
"""jute.maxbuffer: a larger request closes the connection."""

_RETRY_S: Final = 0.05
_OP_OVERHEAD_BYTES: Final = 60
_NOTICE: Final = 2 / 3
"""A client closes a silent connection after this share of the session timeout."""


@dataclass(slots=True)
class _Session:
    timeout_s: float
    connection: "_Connection | None" = None
    timer: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class _Connection:
    """One TCP connection. Messages arrive in order; while `blocked` they wait."""

    client: "SimulatedClient"
    session_id: int
    open: bool = True
    blocked: bool = False
    next_arrival: dict[str, float] = field(default_factory=dict)
    held: deque[tuple[str, Callable[[], None]]] = field(default_factory=deque)
    notice: asyncio.TimerHandle | None = None


class SimulatedZooKeeper:
    """The server's side: one for all clients of a simulation, on one loop."""

    def __init__(
        self,
        *,
        delay: Callable[[], float] = lambda: 0.0005,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.tree = ZnodeTree()
        self.running = True
        self.clients: dict[str, SimulatedClient] = {}
        self._delay = delay
        self._own_loop = loop
        self._sessions: dict[int, _Session] = {}
        self._next_session = 0x100
        self._watch_key = 0

    def client(
        self,
        name: str,
        *,
        session_timeout_s: float = 6.0,
        connection_timeout_s: float | None = None,
        chroot: str = "",
    ) -> "SimulatedClient":
        """Creates a client; faults refer to it by name. Replaces an earlier client of that name."""
        client = SimulatedClient(
            self, name, session_timeout_s, connection_timeout_s or session_timeout_s, chroot
        )
        self.clients[name] = client
        return client

    # -- faults ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends the server. Its data stays, and sessions do not expire meanwhile."""
        self.running = False
        for session in self._sessions.values():
            if session.connection is not None:
                _notify_broken(session.connection)
            _cancel(session)

    def start(self) -> None:
        """Starts the server; each session has its whole timeout to reconnect."""
        self.running = True
        for session_id in self._sessions:
            self._await_contact(session_id)

    def expire(self, name: str) -> None:
        """Expires the client's session, even if the client is connected."""
        self._end_session(self.clients[name].session_id)

    def drop(self, name: str) -> None:
        """Breaks the client's connection; both sides see that, and the client may reconnect."""
        connection = self.clients[name]._connection
        if connection is not None:
            self._connection_closed(connection)
            _notify_broken(connection)

    def cut_off(self, name: str) -> None:
        """Nothing passes between client and server until `heal`."""
        self.clients[name]._cut = True
        self._block_connection(name, notice=True)

    def heal(self, name: str) -> None:
        self.clients[name]._cut = False
        self._unblock_connection(name)

    def pause(self, name: str) -> None:
        """Pauses the client's process: it receives nothing and no timer fires."""
        self.clients[name]._cut = True
        self._block_connection(name, notice=False)

    def resume(self, name: str) -> None:
        self.heal(name)

    def crash(self, name: str) -> None:
        """Ends the client's process. Its session lasts until it times out."""
        client = self.clients.pop(name)
        client._dead = True
        connection = client._connection
        if connection is not None:
            self._connection_closed(connection)

    # -- connections and sessions ------------------------------------------------------------------

    def _connect(self, client: "SimulatedClient", session_id: int) -> tuple[int, bool]:
        """(session, whether it is the requested one); a new session if that has expired."""
        session = self._sessions.get(session_id)
        if session is not None:
            _cancel(session)
            return session_id, True
        if session_id:
            return 0, False
        self._next_session += 1
        self._sessions[self._next_session] = _Session(client.session_timeout_s)
        return self._next_session, True

    def _attach_connection(self, connection: _Connection) -> None:
        session = self._sessions[connection.session_id]
        if session.connection is not None:
            session.connection.open = False
        session.connection = connection

    def _connection_closed(self, connection: _Connection) -> None:
        """The server sees the connection end: the session timeout starts now."""
        connection.open = False
        session = self._sessions.get(connection.session_id)
        if session is not None and session.connection is connection:
            session.connection = None
            if (
                self.running and not connection.blocked
            ):  # the timeout of a blocked connection is already running
                self._await_contact(connection.session_id)

    def _await_contact(self, session_id: int) -> None:
        session = self._sessions[session_id]
        _cancel(session)
        session.timer = self._loop.call_later(session.timeout_s, self._end_session, session_id)

    def _end_session(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        _cancel(session)
        self.tree.remove_session(session_id)
        connection = session.connection
        if connection is not None:
            connection.open = False
            if not connection.blocked:
                _notify_broken(connection)

    def _block_connection(self, name: str, *, notice: bool) -> None:
        client = self.clients[name]
        connection = client._connection
        if connection is None or connection.blocked:
            return
        connection.blocked = True
        self._await_contact(connection.session_id)
        if notice:
            connection.notice = client.loop.call_later(
                client.session_timeout_s * _NOTICE, client._connection_broken, connection
            )

    def _unblock_connection(self, name: str) -> None:
        client = self.clients[name]
        connection = client._connection
        if connection is None or not connection.blocked:
            return
        connection.blocked = False
        if connection.notice is not None:
            connection.notice.cancel()
        session = self._sessions.get(connection.session_id)
        if not connection.open or session is None:
            _notify_broken(connection)
            return
        _cancel(session)
        while connection.held:
            way, deliver = connection.held.popleft()
            self._receiver(connection, way).call_soon(deliver)

    def _send(self, connection: _Connection, way: str, message: Callable[[], None]) -> None:
        """Delivers after a delay, in order, if the connection is still open then."""
        loop = self._receiver(connection, way)
        arrival = max(loop.time() + self._delay(), connection.next_arrival.get(way, 0.0))
        connection.next_arrival[way] = arrival

        def deliver() -> None:
            if connection.blocked:
                connection.held.append((way, deliver))
            elif connection.open:
                message()

        loop.call_at(arrival, deliver)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return self._own_loop or asyncio.get_running_loop()

    def _receiver(self, connection: _Connection, way: str) -> asyncio.AbstractEventLoop:
        return self._loop if way == "request" else connection.client.loop

    # -- requests, at the server -------------------------------------------------------------------

    def _serve(
        self, connection: _Connection, request: Callable[[], T], answer: "asyncio.Future[T]"
    ) -> None:
        try:
            result = request()
        except OpFailed as failed:
            refusal = failed
            self._send(connection, "answer", lambda: _refuse(answer, refusal))
        else:
            self._send(connection, "answer", lambda: _fulfil(answer, result))

    def _watcher(self, connection: _Connection, fired: Callable[[], None]) -> Callable[[], None]:
        return lambda: self._send(connection, "answer", fired)


class SimulatedClient:
    """A `ZooKeeperClient` of the simulated server."""

    def __init__(
        self,
        server: SimulatedZooKeeper,
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
        self._connection: _Connection | None = None
        self._changed: list[Callable[[SessionState], None]] = []
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._watches: dict[int, Watch] = {}
        self._cut = False
        self._dead = False
        self._closed = False
        self._retry: asyncio.TimerHandle | None = None
        self.loop: asyncio.AbstractEventLoop

    def on_state(self, changed: Callable[[SessionState], None]) -> None:
        self._changed.append(changed)

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        connected = asyncio.Event()

        def see(state: SessionState) -> None:
            if state is SessionState.CONNECTED:
                connected.set()

        self._changed.append(see)
        self._try_to_connect()
        try:
            async with asyncio.timeout(self._connection_timeout_s):
                await connected.wait()
        except TimeoutError:
            await self.close()
            raise StoreError(f"no answer from ZooKeeper at {self.servers}") from None
        finally:
            self._changed.remove(see)
        await self._create_chroot()

    async def close(self) -> None:
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        connection, self._connection = self._connection, None
        if connection is not None and connection.open and not connection.blocked:
            self._server._end_session(connection.session_id)
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
        connection = self._connection
        if self.state is SessionState.EXPIRED:
            raise SessionExpired(f"the session of {self.name} has expired")
        if connection is None or self.state is not SessionState.CONNECTED:
            raise ConnectionSuspended(f"{self.name} is not connected to ZooKeeper")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending[answer] = None
        server = self._server
        server._send(connection, "request", lambda: server._serve(connection, request, answer))
        try:
            return await answer
        finally:
            self._pending.pop(answer, None)

    def _set_watch(self, kind: WatchKind, path: str, watch: Watch | None) -> None:
        if watch is None or self._connection is None:
            return
        server = self._server
        server._watch_key += 1
        key = server._watch_key
        self._watches[key] = watch

        def fired() -> None:
            called = self._watches.pop(key, None)
            if called is not None:
                called()

        server.tree.watch(kind, path, key, server._watcher(self._connection, fired))

    def _full_path(self, path: str) -> str:
        if path == "/":
            return self._chroot or path
        return self._chroot + path

    async def _create_chroot(self) -> None:
        chroot, self._chroot = self._chroot, ""
        try:
            names = chroot.split("/")[1:]
            for depth in range(len(names)):
                path = "/" + "/".join(names[: depth + 1])
                try:
                    await self.multi([Create(path)])
                except OpFailed as failed:
                    if failed.reason is not Reason.EXISTS:
                        raise
        finally:
            self._chroot = chroot

    # -- the session ----------------------------------------------------------------------------

    def _try_to_connect(self) -> None:
        self._retry = None
        if self._closed or self._dead or self._connection is not None:
            return
        if self._cut or not self._server.running:
            self._connect_later(_RETRY_S)
            return
        session_id, known = self._server._connect(self, self.session_id)
        if not known:
            self.session_id = 0
            self._set_state(SessionState.EXPIRED)
            self._connect_later(self._server._delay())
            return
        self.session_id = session_id
        self._connection = _Connection(self, session_id)
        self._server._attach_connection(self._connection)
        self._set_state(SessionState.CONNECTED)

    def _connect_later(self, delay_s: float) -> None:
        if self._retry is None and not self._closed and not self._dead:
            self._retry = self.loop.call_later(delay_s, self._try_to_connect)

    def _connection_broken(self, connection: _Connection) -> None:
        """Handles the end of the connection on the client's side."""
        if self._connection is not connection or self._dead:
            return
        self._server._connection_closed(connection)
        self._connection = None
        self._set_state(SessionState.SUSPENDED)
        self._fail_pending()
        watches, self._watches = self._watches, {}
        for key in watches:
            self._server.tree.unwatch(key)
        for watch in watches.values():
            self.loop.call_soon(watch)
        self._connect_later(self._server._delay())

    def _fail_pending(self) -> None:
        for answer in list(self._pending):
            if not answer.done():
                answer.set_exception(ConnectionSuspended(f"{self.name} lost its connection"))

    def _set_state(self, state: SessionState) -> None:
        if self.state is not state:
            self.state = state
            for changed in list(self._changed):
                changed(state)


def _notify_broken(connection: _Connection) -> None:
    """Runs `_connection_broken` on the client's own loop."""
    client = connection.client
    if client.loop is _running_loop():
        client._connection_broken(connection)
    else:
        client.loop.call_soon(client._connection_broken, connection)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _cancel(session: _Session) -> None:
    if session.timer is not None:
        session.timer.cancel()
        session.timer = None


def _fulfil(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _refuse(answer: "asyncio.Future[T]", failed: OpFailed) -> None:
    if not answer.done():
        answer.set_exception(failed)


def _size(op: Op) -> int:
    data = op.data if isinstance(op, Create | SetData) else b""
    return len(op.path) + len(data) + _OP_OVERHEAD_BYTES
