"""A visitor's connection to the cluster: a client, the background snapshot, a small cache.

Sessions without a login share one connection. `cached` keeps an answer for some seconds, and lets
concurrent callers share one request, so that no page asks the cluster once for each row.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from random import SystemRandom
from typing import Any, Final, TypeVar, cast

from headrace.client.client import ClusterClient
from headrace.client.login.security import Credentials, Security
from headrace.clock import Clock
from headrace.console.cluster.poller import BackgroundLoop, Poller
from headrace.console.settings import ConsoleSettings

T = TypeVar("T")

CLIENT_ID: Final = "headrace-console"
MAX_CACHED: Final = 256
CONNECT_TIMEOUT_S: Final = 4.0


class ClusterConnection:
    """`client` is for the pages; the poller has a client of its own in its thread."""

    def __init__(
        self,
        settings: ConsoleSettings,
        background: BackgroundLoop,
        clock: Clock,
        credentials: Credentials | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._security = settings.security(credentials)
        self.client = self.new_client()
        self.poller = Poller(
            self.new_client,
            background,
            clock=clock,
            interval_s=settings.refresh_s,
            timeout_s=settings.request_timeout_s,
        )
        self.is_shared = credentials is None
        self._cache: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}

    @property
    def security(self) -> Security:
        return self._security

    def new_client(self) -> ClusterClient:
        """Another client with the same credentials, for work that would delay the pages."""
        return ClusterClient(
            self._settings.servers,
            client_id=self._settings.client.get("client.id", CLIENT_ID),
            clock=self._clock,
            random=SystemRandom(),
            security=self._security,
            request_timeout_s=self._settings.request_timeout_s,
            connect_timeout_s=CONNECT_TIMEOUT_S,
        )

    async def cached(self, key: Hashable, ttl_s: float, load: Callable[[], Awaitable[T]]) -> T:
        """The answer of `load`, at most `ttl_s` old; a failure is not kept."""
        now_s = self._clock.monotonic()
        found = self._cache.get(key)
        if found is not None and now_s < found[0]:
            return cast("T", await asyncio.shield(found[1]))
        task: asyncio.Future[T] = asyncio.ensure_future(load())
        self._cache[key] = (now_s + ttl_s, task)
        while len(self._cache) > MAX_CACHED:
            del self._cache[next(iter(self._cache))]
        try:
            return await asyncio.shield(task)
        except BaseException:
            if self._cache.get(key, (0, None))[1] is task:
                del self._cache[key]
            raise

    def forget_cached(self) -> None:
        """Drops all cached answers, after a change."""
        self._cache.clear()

    async def close(self) -> None:
        await self.poller.close()
        await self.client.close()
