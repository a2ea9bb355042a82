"""A ZooKeeper client on kazoo, whose threads and sockets are in `kazoo_threads`.

kazoo runs a thread for the connection and hands responses straight to the event loop. This module
corrects some of kazoo's behaviour: kazoo reports a wrong SASL password as success, waits up to a
minute between connection attempts, waits a whole session timeout for an unresponsive host, and
logs credentials at debug level.
"""

import asyncio
import logging
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
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Permissions

from headrace.cluster.metadata_store import StoreError
from headrace.cluster.stores.kazoo_credentials import auth_data, sasl_options
from headrace.cluster.stores.kazoo_multi_read import MultiRead
from headrace.cluster.stores.kazoo_threads import (
    Handler,
    KazooResult,
    WatchOnce,
    call_on,
    close_client,
)
from headrace.cluster.stores.znode_paths import SENSITIVE_PATHS
from headrace.cluster.stores.zookeeper_client import (
    CheckVersion,
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
    StoreAuthenticationFailed,
    Watch,
    create_with_parents,
)
from headrace.cluster.stores.zookeeper_settings import ZooKeeperSettings

_LOG = logging.getLogger(__package__)
_QUIET = logging.getLogger("headrace.kazoo")  # kazoo's own log lines may contain credentials
_QUIET.setLevel(logging.CRITICAL)

READ_BATCH: Final = 200
"""Znodes read by one request: the response stays well below ZooKeeper's limit of 1 MB."""

_RETRY: Final = {"max_tries": -1, "delay": 0.05, "backoff": 1.5, "max_delay": 0.5}
_CLOSE_S: Final = 5.0

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
        self._watches: set[WatchOnce] = set()
        self._multi_reads = True
        self._closing = False
        self._refused = False
        self._in_flight: asyncio.Semaphore | None = None
        self._handler: Handler | None = None
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
        self._handler = handler = Handler(loop, settings)
        self._kazoo = kazoo = Kazoo(
            hosts=settings.hosts + settings.chroot,
            timeout=settings.session_timeout_s,
            handler=handler,
            auth_data=auth_data(settings),
            sasl_options=sasl_options(settings),
            connection_retry=dict(_RETRY),
            logger=_QUIET,
        )
        # kazoo does not record sessions that were never created; the listener sees every state.
        kazoo.add_listener(lambda state: self._forward_state(loop, kazoo, state))
        try:
            kazoo.start_async()
            async with asyncio.timeout(settings.connection_timeout_s):
                await self._wait_until_usable()
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
        # Closing waits for kazoo's threads, so it runs in its own thread with a timeout: a dead
        # ensemble must not delay the broker.
        closed = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=close_client, args=(kazoo, loop, closed), daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await closed
        except TimeoutError:
            _LOG.warning(
                "cannot end the session with ZooKeeper at %s within %g s: it expires by itself",
                self.servers,
                _CLOSE_S,
            )
        self.session_id = 0
        self.state = SessionState.SUSPENDED

    async def _wait_until_usable(self) -> None:
        """Waits for a first response: kazoo reports "connected" before it has authenticated."""
        while True:
            try:
                await self.get("/")
                return
            except ConnectionSuspended:
                await asyncio.sleep(_RETRY["delay"])

    async def _create_chroot(self) -> None:
        kazoo = self._kazoo
        assert kazoo is not None
        if not self._settings.chroot or await self.get("/") is not None:
            return
        chroot, kazoo.chroot = kazoo.chroot, ""
        try:
            await create_with_parents(self, self._settings.chroot)
        finally:
            kazoo.chroot = chroot

    def _forward_state(self, loop: asyncio.AbstractEventLoop, kazoo: Kazoo, state: str) -> None:
        """Runs on kazoo's thread."""
        session_id = kazoo._session_id or 0
        refused = kazoo._state == KeeperState.AUTH_FAILED
        call_on(loop, self._set_state, _STATES[state], session_id, refused)

    def _set_state(self, state: SessionState, session_id: int, refused: bool) -> None:
        if self._closing or (state is self.state and session_id == self.session_id):
            return
        if state is SessionState.CONNECTED:
            self.session_id = session_id
        elif refused and not self._refused:
            self._refused = True  # kazoo does not retry after this
            _LOG.error(
                "ZooKeeper at %s rejected this broker's credentials: correct them and restart",
                self.servers,
            )
        self.state = state
        for changed in list(self._changed):
            changed(state)
        if state is not SessionState.CONNECTED:
            # kazoo notifies only the watches whose request was answered.
            watches, self._watches = self._watches, set()
            for watch in watches:
                watch()

    def _unreachable(self, reason: str) -> str:
        return (
            f"no answer from ZooKeeper at {self.servers} within "
            f"{self._settings.connection_timeout_s:g} s{reason}: check zookeeper.connect, and "
            "that ZooKeeper is running there"
        )

    # -- requests -------------------------------------------------------------------------------

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat] | None:
        once = self._watch_once(watch)
        while True:
            try:
                data, stat = await self._request(lambda kazoo: kazoo.get_async(path, once))
            except NoNodeError:
                if once is None:
                    return None
                if await self._request(lambda kazoo: kazoo.exists_async(path, once)) is None:
                    return None
                continue  # the znode was created between the two requests
            return data or b"", _stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str] | None:
        once = self._watch_once(watch)
        while True:
            try:
                names = await self._request(lambda kazoo: kazoo.get_children_async(path, once))
            except NoNodeError:
                if once is None:
                    return None
                if await self._request(lambda kazoo: kazoo.exists_async(path, once)) is None:
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
        def send(kazoo: Kazoo) -> KazooResult:
            answer: KazooResult = kazoo.handler.async_result()
            prefix = kazoo.chroot
            kazoo._call(MultiRead([prefix + path for path in paths]), answer)
            return answer

        found: list[tuple[bytes, Stat] | None] = await self._request(send)
        return found

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        def send(kazoo: Kazoo) -> KazooResult:
            transaction = kazoo.transaction()
            for op in ops:
                self._add_op(transaction, op)
            answer: KazooResult = transaction.commit_async()
            return answer

        results = await self._request(send)
        for index, result in enumerate(results):
            if isinstance(result, KazooException):
                self._raise_failed_op(ops, results, index)
        return [
            _stat(result) if isinstance(op, SetData) else None
            for op, result in zip(ops, results, strict=True)
        ]

    async def readable_by_anyone(self, paths: Sequence[str]) -> list[str]:
        async def is_open(path: str) -> bool:
            try:
                acls, _ = await self._request(lambda kazoo: kazoo.get_acls_async(path))
            except NoNodeError:
                return False
            return any(acl.id.scheme == "world" and acl.perms & Permissions.READ for acl in acls)

        found = await asyncio.gather(*map(is_open, paths))
        return [path for path, open_ in zip(paths, found, strict=True) if open_]

    def _add_op(self, transaction: Any, op: Op) -> None:  # noqa: ANN401 - kazoo has no types
        match op:
            case Create(path, data, ephemeral):
                transaction.create(path, data, acl=self._acl(path), ephemeral=ephemeral)
            case SetData(path, data, version):
                transaction.set_data(path, data, version)
            case Delete(path, version):
                transaction.delete(path, version)
            case CheckVersion(path, version):
                transaction.check(path, version)

    def _raise_failed_op(self, ops: Sequence[Op], results: Sequence[object], start: int) -> None:
        """Raises the failed operation's error, skipping those rolled back or never tried."""
        for index in range(start, len(results)):
            error = results[index]
            if isinstance(error, RolledBackError | RuntimeInconsistency):
                continue
            if isinstance(error, KazooException):
                reason = _REASONS.get(type(error))
                if reason is not None:
                    raise OpFailed(index, reason, ops[index].path)
                raise self._translated(error, ops[index].path)
        raise StoreError(f"ZooKeeper at {self.servers} refused a write and sent no reason")

    def _acl(self, path: str) -> list[ACL]:
        if not self._settings.set_acl:
            return list(OPEN_ACL_UNSAFE)
        if path.startswith(SENSITIVE_PATHS):
            return list(CREATOR_ALL_ACL)
        return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

    async def _request(self, send: Callable[[Kazoo], KazooResult]) -> Any:  # noqa: ANN401 - kazoo has no types
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
                return ConnectionSuspended(f"{where}: the connection was lost")
            case SessionExpiredError():
                return SessionExpired(f"{where} ended this broker's session")
            case AuthFailedError():
                return StoreAuthenticationFailed(
                    f"{where} rejected this broker's credentials: check "
                    "headrace.zookeeper.username and headrace.zookeeper.password"
                )
            case NoAuthError():
                what = f"writing {path}" if path else "the request"
                return StoreAuthenticationFailed(
                    f"{where} does not permit {what}: another user owns it. Check "
                    "headrace.zookeeper.auth and its username and password"
                )
            case _:
                return StoreError(f"{where}: {type(error).__name__} {error}")

    def _watch_once(self, watch: Watch | None) -> WatchOnce | None:
        if watch is None:
            return None
        once = WatchOnce(watch, self._watches, asyncio.get_running_loop())
        self._watches.add(once)
        return once


def _stat(stat: Any) -> Stat:  # noqa: ANN401 - kazoo has no types
    return Stat(stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner, stat.numChildren)
