"""A ZooKeeper without Java, threads or real time, for simulations and quick tests.

    zookeeper = SimulatedZooKeeper()
    client = zookeeper.client("broker-1", session_timeout_s=6)
    await client.start()

Sessions, ephemeral znodes, versions, `multi`, watches and expiry work as in the real ZooKeeper;
both pass the same contract tests. All events are timers of the running loop. Only `delay` (seconds
for one way over the network) decides their order, so the same delays lead to the same history.

Clients may run on other loops than the server, which then has its own loop: a client's loop may
end or pause while the server's time continues.

Faults: `cut_off` and `heal` (a client and the server cannot exchange data), `drop` (the client's
connection breaks), `pause` and `resume` (the client's process, as by SIGSTOP), `crash` (the
client's process ends), `expire` (the server expires the session), `stop` and `start` (the server
ends and returns with its data).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from headrace.cluster.stores.zookeeper_client import OpFailed
from headrace.testing.simulated_znodes import ZnodeTree
from headrace.testing.simulated_zookeeper_client import Connection, SimulatedClient

T = TypeVar("T")

_NOTICE: Final = 2 / 3
"""A client closes a silent connection after this share of the session timeout."""


@dataclass(slots=True)
class _Session:
    timeout_s: float
    connection: Connection | None = None
    timer: asyncio.TimerHandle | None = None


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
        self.delay = delay
        self._own_loop = loop
        self._sessions: dict[int, _Session] = {}
        self._next_session = 0x100
        self._last_watch_key = 0

    def client(
        self,
        name: str,
        *,
        session_timeout_s: float = 6.0,
        connection_timeout_s: float | None = None,
        chroot: str = "",
    ) -> SimulatedClient:
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
        self.end_session(self.clients[name].session_id)

    def drop(self, name: str) -> None:
        """Breaks the client's connection; both sides see that, and the client may reconnect."""
        connection = self.clients[name].connection
        if connection is not None:
            self.connection_closed(connection)
            _notify_broken(connection)

    def cut_off(self, name: str) -> None:
        """Blocks all data between client and server until `heal`."""
        self.clients[name].unreachable = True
        self._block_connection(name, notice=True)

    def heal(self, name: str) -> None:
        self.clients[name].unreachable = False
        self._unblock_connection(name)

    def pause(self, name: str) -> None:
        """Pauses the client's process: it receives nothing and no timer fires."""
        self.clients[name].unreachable = True
        self._block_connection(name, notice=False)

    def resume(self, name: str) -> None:
        self.heal(name)

    def crash(self, name: str) -> None:
        """Ends the client's process. Its session lasts until it times out."""
        client = self.clients.pop(name)
        client.crashed = True
        connection = client.connection
        if connection is not None:
            self.connection_closed(connection)

    # -- connections and sessions ------------------------------------------------------------------

    def connect(self, client: SimulatedClient, session_id: int) -> tuple[int, bool]:
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

    def attach_connection(self, connection: Connection) -> None:
        session = self._sessions[connection.session_id]
        if session.connection is not None:
            session.connection.open = False
        session.connection = connection

    def connection_closed(self, connection: Connection) -> None:
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
        session.timer = self._loop.call_later(session.timeout_s, self.end_session, session_id)

    def end_session(self, session_id: int) -> None:
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
        connection = client.connection
        if connection is None or connection.blocked:
            return
        connection.blocked = True
        self._await_contact(connection.session_id)
        if notice:
            connection.notice = client.loop.call_later(
                client.session_timeout_s * _NOTICE, client.connection_broken, connection
            )

    def _unblock_connection(self, name: str) -> None:
        client = self.clients[name]
        connection = client.connection
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
        while connection.undelivered:
            way, deliver = connection.undelivered.popleft()
            self._receiver(connection, way).call_soon(deliver)

    def send(self, connection: Connection, way: str, message: Callable[[], None]) -> None:
        """Delivers after a delay, in order, if the connection is still open then."""
        loop = self._receiver(connection, way)
        arrival = max(loop.time() + self.delay(), connection.next_arrival.get(way, 0.0))
        connection.next_arrival[way] = arrival

        def deliver() -> None:
            if connection.blocked:
                connection.undelivered.append((way, deliver))
            elif connection.open:
                message()

        loop.call_at(arrival, deliver)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return self._own_loop or asyncio.get_running_loop()

    def _receiver(self, connection: Connection, way: str) -> asyncio.AbstractEventLoop:
        return self._loop if way == "request" else connection.client.loop

    # -- requests, at the server -------------------------------------------------------------------

    def serve(
        self, connection: Connection, request: Callable[[], T], answer: "asyncio.Future[T]"
    ) -> None:
        try:
            result = request()
        except OpFailed as failed:
            refusal = failed
            self.send(connection, "answer", lambda: _refuse(answer, refusal))
        else:
            self.send(connection, "answer", lambda: _fulfil(answer, result))

    def next_watch_key(self) -> int:
        self._last_watch_key += 1
        return self._last_watch_key

    def watcher(self, connection: Connection, fired: Callable[[], None]) -> Callable[[], None]:
        return lambda: self.send(connection, "answer", fired)


def _notify_broken(connection: Connection) -> None:
    """Runs `connection_broken` on the client's own loop."""
    client = connection.client
    if client.loop is _running_loop():
        client.connection_broken(connection)
    else:
        client.loop.call_soon(client.connection_broken, connection)


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
