"""kazoo's threads and sockets. All their results and events are passed to the event loop."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient as Kazoo
from kazoo.handlers.threading import SequentialThreadingHandler

from headrace.cluster.stores.kazoo_credentials import tls_context
from headrace.cluster.stores.zookeeper_client import Watch
from headrace.cluster.stores.zookeeper_settings import ZooKeeperSettings

_LONGEST_CONNECT_S: Final = 5.0


class WatchOnce:
    """A watch that runs once, though both kazoo's threads and the event loop may call it."""

    def __init__(
        self, watch: Watch, pending: set["WatchOnce"], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._watch: Watch | None = watch
        self._pending = pending
        self._loop = loop

    def __call__(self, event: object = None) -> None:
        call_on(self._loop, self._fire)

    def _fire(self) -> None:
        watch, self._watch = self._watch, None
        self._pending.discard(self)
        if watch is not None:
            watch()


class KazooResult:
    """kazoo's `AsyncResult` without threads: the response goes to a future of the event loop."""

    __slots__ = ("_loop", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()

    def set(self, value: object = None) -> None:
        call_on(self._loop, self._finish, value, None)

    def set_exception(self, error: BaseException) -> None:
        call_on(self._loop, self._finish, None, error)

    def _finish(self, value: object, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets, with `KazooResult`, own TLS and bounded connection waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: ZooKeeperSettings) -> None:
        super().__init__()
        self._loop = loop
        self._tls = None if settings.tls is None else tls_context(settings.tls)
        hosts = settings.hosts.count(",") + 1
        self._connect_s = min(_LONGEST_CONNECT_S, settings.session_timeout_s / (hosts + 1))
        self.trouble = ""

    def async_result(self) -> KazooResult:
        return KazooResult(self._loop)

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


def call_on(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: object) -> None:
    """Runs `call` on the loop, from any thread; does nothing if the loop is closed."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise


def close_client(
    kazoo: Kazoo, loop: asyncio.AbstractEventLoop, closed: "asyncio.Future[None]"
) -> None:
    try:
        kazoo.stop()
        kazoo.close()
    finally:
        call_on(loop, lambda: None if closed.done() else closed.set_result(None))
