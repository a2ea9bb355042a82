"""ZooKeeper through kazoo: its threads stay behind this module.

kazoo runs a thread for the connection. Answers are handed from it straight to the event loop. What
kazoo gets wrong for us is corrected here: it reports a wrong SASL password as success, waits up to
a minute between attempts to connect, waits as long as a session for a host that does not answer,
and logs credentials when debugging.
"""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.client import KazooClient as Kazoo
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    UnimplementedError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import GetData, MultiHeader, int_struct, read_buffer, stat_struct
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from headrace.cluster.store import StoreError
from headrace.cluster.stores.znodes import SENSITIVE_PATHS
from headrace.cluster.stores.zookeeper_client import (
    AuthenticationFailed,
    Check,
    ConnectionSuspended,
    Create,
    Delete,
    Op,
    OpFailed,
    Reason,
    SessionExpired,
    SessionState,
    SetData,
    Stat,
    Watch,
)
from headrace.cluster.stores.zookeeper_settings import (
    DIGEST,
    SASL,
    ZooKeeperSettings,
    ZooKeeperTls,
)

_LOG = logging.getLogger(__name__)
_QUIET = logging.getLogger("headrace.kazoo")  # kazoo's own lines may hold credentials
_QUIET.setLevel(logging.CRITICAL)

READ_BATCH: Final = 200
"""Znodes read by one request: an answer stays well below ZooKeeper's limit of 1 MB."""

_RETRY: Final = {"max_tries": -1, "delay": 0.05, "backoff": 1.5, "max_delay": 0.5}
_CLOSE_S: Final = 5.0
_LONGEST_CONNECT_S: Final = 5.0

_REASONS: Final[dict[type[KazooException], Reason]] = {
    NodeExistsError: Reason.EXISTS,
    NoNodeError: Reason.MISSING,
    BadVersionError: Reason.VERSION,
    NotEmptyError: Reason.NOT_EMPTY,
}
_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.EXPIRED,
}


class KazooZooKeeper:
    """A `ZooKeeperClient` for a real ensemble."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._settings = settings
        self.servers = settings.connect
        self.state = SessionState.SUSPENDED
        self.session_id = 0
        self._changed: list[Callable[[SessionState], None]] = []
        self._watches: set[_WatchOnce] = set()
        self._multi_reads = True
        self._closing = False
        self._refused = False
        self._in_flight: asyncio.Semaphore | None = None
        self._handler: _Handler | None = None
        self._kazoo: Kazoo | None = None

    @property
    def session_timeout_s(self) -> float:
        return self._settings.session_timeout_s

    def on_state(self, changed: Callable[[SessionState], None]) -> None:
        self._changed.append(changed)

    # -- the session ----------------------------------------------------------------------------

    async def start(self) -> None:
        settings = self._settings
        loop = asyncio.get_running_loop()
        self._in_flight = asyncio.Semaphore(settings.max_in_flight)
        self._handler = handler = _Handler(loop, settings)
        self._kazoo = kazoo = Kazoo(
            hosts=settings.hosts + settings.chroot,
            timeout=settings.session_timeout_s,
            handler=handler,
            auth_data=_auth_data(settings),
            sasl_options=_sasl_options(settings),
            connection_retry=dict(_RETRY),
            logger=_QUIET,
        )
        # kazoo keeps no record of sessions that were never created: the listener sees it all.
        kazoo.add_listener(lambda state: self._hand_over(loop, kazoo, state))
        try:
            kazoo.start_async()
            async with asyncio.timeout(settings.connection_timeout_s):
                await self._until_usable()
            await self._create_chroot()
        except TimeoutError:
            reason = handler.trouble
            await self.close()
            raise StoreError(self._unreachable(reason)) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self._closing = True
        kazoo, self._kazoo = self._kazoo, None
        if kazoo is None:
            return
        # Closing waits for threads, so it has one; a dead ensemble must not keep us for long.
        closed = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=_close, args=(kazoo, loop, closed), daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await closed
        except TimeoutError:
            _LOG.warning("ZooKeeper at %s did not see the session's end", self.servers)
        self.session_id = 0
        self.state = SessionState.SUSPENDED

    async def _until_usable(self) -> None:
        """kazoo is "connected" before it has shown its credentials: only an answer counts."""
        while True:
            try:
                await self.get("/")
                return
            except ConnectionSuspended:
                await asyncio.sleep(_RETRY["delay"])

    async def _create_chroot(self) -> None:
        kazoo = self._kazoo
        assert kazoo is not None
        names = self._settings.chroot.split("/")[1:]
        if not names or await self.get("/") is not None:
            return
        chroot, kazoo.chroot = kazoo.chroot, ""
        try:
            for depth in range(len(names)):
                path = "/" + "/".join(names[: depth + 1])
                try:
                    await self.multi([Create(path)])
                except OpFailed as failed:
                    if failed.reason is not Reason.EXISTS:
                        raise
        finally:
            kazoo.chroot = chroot

    def _hand_over(self, loop: asyncio.AbstractEventLoop, kazoo: Kazoo, state: str) -> None:
        """On kazoo's thread."""
        session_id = kazoo._session_id or 0
        refused = kazoo._state == KeeperState.AUTH_FAILED
        _call_on(loop, self._set_state, _STATES[state], session_id, refused)

    def _set_state(self, state: SessionState, session_id: int, refused: bool) -> None:
        if self._closing or (state is self.state and session_id == self.session_id):
            return
        if state is SessionState.CONNECTED:
            self.session_id = session_id
        elif refused and not self._refused:
            self._refused = True  # kazoo gives up for good
            _LOG.error("ZooKeeper at %s refuses our credentials", self.servers)
        self.state = state
        for changed in list(self._changed):
            changed(state)
        if state is not SessionState.CONNECTED:
            # kazoo tells only those watches whose request was answered.
            watches, self._watches = self._watches, set()
            for watch in watches:
                watch()

    def _unreachable(self, reason: str) -> str:
        return (
            f"no answer from ZooKeeper at {self.servers} within "
            f"{self._settings.connection_timeout_s:g} s{reason}: check zookeeper.connect, and "
            "that ZooKeeper runs there"
        )

    # -- requests -------------------------------------------------------------------------------

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat] | None:
        once = self._watch_once(watch)
        while True:
            try:
                data, stat = await self._ask(lambda kazoo: kazoo.get_async(path, once))
            except NoNodeError:
                if once is None:
                    return None
                if await self._ask(lambda kazoo: kazoo.exists_async(path, once)) is None:
                    return None
                continue  # it was created in this moment
            return data or b"", _stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str] | None:
        once = self._watch_once(watch)
        while True:
            try:
                names = await self._ask(lambda kazoo: kazoo.get_children_async(path, once))
            except NoNodeError:
                if once is None:
                    return None
                if await self._ask(lambda kazoo: kazoo.exists_async(path, once)) is None:
                    return None
                continue
            return sorted(names)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        if self._multi_reads:
            try:
                return await self._read_in_batches(paths)
            except UnimplementedError:  # ZooKeeper before 3.6
                self._multi_reads = False
        return list(await asyncio.gather(*(self.get(path) for path in paths)))

    async def _read_in_batches(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        batches = [paths[at : at + READ_BATCH] for at in range(0, len(paths), READ_BATCH)]
        answers = await asyncio.gather(*map(self._read_batch, batches))
        return [znode for answer in answers for znode in answer]

    async def _read_batch(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        def send(kazoo: Kazoo) -> _Answer:
            answer: _Answer = kazoo.handler.async_result()
            prefix = kazoo.chroot
            kazoo._call(_MultiRead([prefix + path for path in paths]), answer)
            return answer

        found: list[tuple[bytes, Stat] | None] = await self._ask(send)
        return found

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        def send(kazoo: Kazoo) -> _Answer:
            transaction = kazoo.transaction()
            for op in ops:
                self._add(transaction, op)
            answer: _Answer = transaction.commit_async()
            return answer

        results = await self._ask(send)
        for index, result in enumerate(results):
            if isinstance(result, KazooException):
                self._raise_first(ops, results, index)
        return [
            _stat(result) if isinstance(op, SetData) else None
            for op, result in zip(ops, results, strict=True)
        ]

    def _add(self, transaction: Any, op: Op) -> None:  # noqa: ANN401 - kazoo has no types
        match op:
            case Create(path, data, ephemeral):
                transaction.create(path, data, acl=self._acl(path), ephemeral=ephemeral)
            case SetData(path, data, version):
                transaction.set_data(path, data, version)
            case Delete(path, version):
                transaction.delete(path, version)
            case Check(path, version):
                transaction.check(path, version)

    def _raise_first(self, ops: Sequence[Op], results: Sequence[object], start: int) -> None:
        """The operation that failed is between those rolled back and those never tried."""
        for index in range(start, len(results)):
            error = results[index]
            if isinstance(error, RolledBackError | RuntimeInconsistency):
                continue
            if isinstance(error, KazooException):
                reason = _REASONS.get(type(error))
                if reason is not None:
                    raise OpFailed(index, reason, ops[index].path)
                raise self._translated(error, ops[index].path)
        raise StoreError(f"ZooKeeper at {self.servers} refused a write without a reason")

    def _acl(self, path: str) -> list[ACL]:
        if not self._settings.set_acl:
            return list(OPEN_ACL_UNSAFE)
        if path.startswith(SENSITIVE_PATHS):
            return list(CREATOR_ALL_ACL)
        return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

    async def _ask(self, send: Callable[[Kazoo], "_Answer"]) -> Any:  # noqa: ANN401 - kazoo has no types
        kazoo, in_flight = self._kazoo, self._in_flight
        if kazoo is None or in_flight is None:
            raise ConnectionSuspended(f"the connection to ZooKeeper at {self.servers} is closed")
        async with in_flight:
            try:
                return await send(kazoo).future
            except (NoNodeError, UnimplementedError):
                raise
            except KazooException as error:
                raise self._translated(error) from error

    def _translated(self, error: KazooException, path: str = "") -> StoreError:
        where = f"ZooKeeper at {self.servers}"
        match AuthFailedError() if self._refused else error:
            case ConnectionLoss() | ConnectionClosedError() | SessionMovedError():
                return ConnectionSuspended(f"{where}: the connection is lost")
            case SessionExpiredError():
                return SessionExpired(f"{where} has ended our session")
            case AuthFailedError():
                return AuthenticationFailed(
                    f"{where} refuses our credentials: check headrace.zookeeper.username and "
                    "headrace.zookeeper.password"
                )
            case NoAuthError():
                what = f" write {path}" if path else " do this"
                return AuthenticationFailed(
                    f"{where} does not let us{what}: it belongs to others. Check "
                    "headrace.zookeeper.auth and its username and password"
                )
            case _:
                return StoreError(f"{where}: {type(error).__name__} {error}")

    def _watch_once(self, watch: Watch | None) -> "_WatchOnce | None":
        if watch is None:
            return None
        once = _WatchOnce(watch, self._watches, asyncio.get_running_loop())
        self._watches.add(once)
        return once


class _WatchOnce:
    """A watch that kazoo may call from its threads, and we from ours: it counts once."""

    def __init__(
        self, watch: Watch, among: set["_WatchOnce"], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._watch: Watch | None = watch
        self._among = among
        self._loop = loop

    def __call__(self, event: object = None) -> None:
        _call_on(self._loop, self._fire)

    def _fire(self) -> None:
        watch, self._watch = self._watch, None
        self._among.discard(self)
        if watch is not None:
            watch()


class _Answer:
    """kazoo's `AsyncResult`, without threads: the answer goes to a future of the loop."""

    __slots__ = ("_loop", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()

    def set(self, value: object = None) -> None:
        _call_on(self._loop, self._finish, value, None)

    def set_exception(self, error: BaseException) -> None:
        _call_on(self._loop, self._finish, None, error)

    def _finish(self, value: object, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets, with our answers, our TLS and bounded waits for a host."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: ZooKeeperSettings) -> None:
        super().__init__()
        self._loop = loop
        self._tls = None if settings.tls is None else tls_context(settings.tls)
        hosts = settings.hosts.count(",") + 1
        self._connect_s = min(_LONGEST_CONNECT_S, settings.session_timeout_s / (hosts + 1))
        self.trouble = ""

    def async_result(self) -> _Answer:
        return _Answer(self._loop)

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, **_: object
    ) -> socket.socket:
        try:
            plain = socket.create_connection(address, self._connect_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return plain
            try:
                return self._tls.wrap_socket(plain, server_hostname=hostname)
            except BaseException:
                plain.close()
                raise
        except OSError as error:
            self.trouble = f" ({address[0]}:{address[1]}: {error})"
            raise


class _MultiRead:
    """Many reads in one request (ZooKeeper 3.6 has them, kazoo has not)."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytearray:
        parts = bytearray()
        for path in self._paths:
            parts += MultiHeader(GetData.type, False, -1).serialize()
            parts += GetData(path, None).serialize()
        parts += MultiHeader(-1, True, -1).serialize()
        return parts

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[tuple[bytes, Stat] | None]:
        found: list[tuple[bytes, Stat] | None] = []
        header, offset = MultiHeader.deserialize(data, offset)
        while not header.done:
            if header.type == GetData.type:
                content, offset = read_buffer(data, offset)
                fields = stat_struct.unpack_from(data, offset)
                offset += stat_struct.size
                found.append((content or b"", Stat(fields[4], fields[0], fields[1], fields[7])))
            else:
                (code,) = int_struct.unpack_from(data, offset)
                offset += int_struct.size
                if code != NoNodeError.code:
                    raise _read_error(code)
                found.append(None)
            header, offset = MultiHeader.deserialize(data, offset)
        return found


def tls_context(tls: ZooKeeperTls) -> ssl.SSLContext:
    """Raises `StoreError` where a file does not serve."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = sorted(ssl.TLSVersion[name.replace(".", "_")] for name in tls.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.check_hostname = tls.check_host
    try:
        if tls.ciphers:
            context.set_ciphers(":".join(tls.ciphers))
        if tls.truststore is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            context.load_verify_locations(tls.truststore)
        if tls.keystore is not None:
            context.load_cert_chain(tls.keystore, password=tls.keystore_password)
    except (OSError, ValueError) as error:
        raise StoreError(f"TLS towards ZooKeeper: {error}; check zookeeper.ssl.*") from error
    return context


def _auth_data(settings: ZooKeeperSettings) -> set[tuple[str, str]]:
    if settings.auth != DIGEST:
        return set()
    return {("digest", f"{settings.username}:{settings.password}")}


def _sasl_options(settings: ZooKeeperSettings) -> dict[str, str] | None:
    if settings.auth != SASL:
        return None
    from importlib.util import find_spec

    if find_spec("puresasl") is None:
        raise StoreError("SASL towards ZooKeeper needs a library: pip install 'kazoo[sasl]'")
    return {
        "mechanism": "DIGEST-MD5",
        "username": settings.username,
        "password": settings.password,
    }


def _stat(stat: Any) -> Stat:  # noqa: ANN401 - kazoo has no types
    return Stat(stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner)


def _read_error(code: int) -> KazooException:
    from kazoo.exceptions import EXCEPTIONS

    error: KazooException = EXCEPTIONS[code]()
    return error


def _call_on(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: object) -> None:
    """On the loop, from any thread; a loop that has ended needs no news."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _close(kazoo: Kazoo, loop: asyncio.AbstractEventLoop, closed: "asyncio.Future[None]") -> None:
    try:
        kazoo.stop()
        kazoo.close()
    finally:
        _call_on(loop, lambda: None if closed.done() else closed.set_result(None))
