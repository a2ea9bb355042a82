"""A cluster client in its own thread: blocking code and any event loop can use it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from headrace.client.client import ClusterClient
from headrace.client.login.security import PLAINTEXT, Security
from headrace.client.network.retry import Backoff
from headrace.clock import SystemClock
from headrace.testing.client_id import CLIENT_ID

T = TypeVar("T")

# A broker in the same process restarts, or is elected, within milliseconds.
BACKOFF: Final = Backoff(initial_s=0.005, max_s=0.2)
CLOSE_TIMEOUT_S: Final = 10.0


class ClientThread:
    """The thread starts with the first call; `close` ends it."""

    def __init__(
        self,
        bootstrap_servers: Callable[[], str],
        security: Callable[[], Security] = lambda: PLAINTEXT,
    ) -> None:
        self._servers = bootstrap_servers
        self._security = security
        self._client: ClusterClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def call(self, ask: Callable[[ClusterClient], Awaitable[T]]) -> T:
        """Runs `ask` with the client and returns its result. `ask` must limit its own time."""
        with self._starting:
            loop = self._loop or self._start()

        async def asked() -> T:
            if self._client is None:
                self._client = self.new_client()
            return await ask(self._client)

        return asyncio.run_coroutine_threadsafe(asked(), loop).result()

    def new_client(self) -> ClusterClient:
        """A client with its own connections, for use on this thread's loop."""
        return ClusterClient(
            self._servers(),
            client_id=CLIENT_ID,
            clock=SystemClock(),
            random=Random(),  # noqa: S311  # backoff and the choice of a broker
            backoff=BACKOFF,
            security=self._security(),
        )

    def close(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        client, self._client = self._client, None
        try:
            if client is not None:
                asyncio.run_coroutine_threadsafe(client.close(), loop).result(CLOSE_TIMEOUT_S)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSE_TIMEOUT_S)
            loop.close()

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=loop.run_forever, name="headrace-testing", daemon=True
        )
        self._thread.start()
        return loop
