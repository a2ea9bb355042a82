"""The keys that sign bearer tokens: fetched at the start, again at intervals, and when unknown.

A failed fetch keeps the keys of the last one. A token with an unknown key id fetches the keys
again, at most once in `MIN_FETCH_INTERVAL_S`: clients that invent ids must not make the broker
attack the server of the keys.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from headrace.broker.runtime.errors import StartupError
from headrace.clock import Clock
from headrace.cluster.sasl_settings import OAuthBearerSettings
from headrace.limited_log import LimitedLog
from headrace.security.sasl.exchange import Exchange
from headrace.security.sasl.json_web_keys import InvalidKeys, JsonWebKeys, parse_keys
from headrace.security.sasl.jwt import BearerToken, TokenRules, validate
from headrace.security.sasl.oauthbearer import OAuthBearerExchange

log = logging.getLogger(__package__)

MIN_FETCH_INTERVAL_S: Final = 10.0
START_ATTEMPTS: Final = 3
MIN_PAUSE_S: Final = 0.05
"""Between two attempts, whatever the settings say."""


class FetchFailed(Exception):
    """The keys could not be fetched or read."""


class Jwks:
    """The keys and rules of one listener. Implements `BearerTokens`."""

    def __init__(
        self,
        settings: OAuthBearerSettings,
        clock: Clock,
        fetch: Callable[[str], Awaitable[bytes]],
    ) -> None:
        """`fetch` returns the contents of a URL and raises for every failure."""
        self._settings = settings
        self._clock = clock
        self._fetch = fetch
        self._limited_log = LimitedLog(log, clock.monotonic)
        self._keys = JsonWebKeys()
        self._fetched_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._rules = TokenRules(
            settings.issuer,
            settings.audiences,
            settings.scope_claim,
            settings.subject_claim,
            settings.clock_skew_s,
        )

    async def start(self) -> None:
        """Fetches the keys; raises `StartupError` if that fails: no token could be validated."""
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                await self._fetch_keys()
                break
            except FetchFailed as error:
                if attempt == START_ATTEMPTS:
                    raise StartupError(
                        f"cannot fetch the keys for OAUTHBEARER from {self._settings.keys_url} "
                        f"(sasl.oauthbearer.jwks.endpoint.url): {error}"
                    ) from error
                await asyncio.sleep(self._retry_pause_s(attempt))
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    def stop(self) -> None:
        for task in (self._refreshing, self._fetching):
            if task is not None:
                task.cancel()

    def exchange(self) -> Exchange:
        return OAuthBearerExchange(self._validate)

    def _validate(self, token: str) -> BearerToken:
        return validate(token, self._keys, self._rules, self._clock.wall_ms() / 1000)

    async def find_key(self, key_id: str) -> None:
        """Fetches the keys again, unless the last fetch was a moment ago."""
        if self._fetching is None:
            if self._clock.monotonic() - self._fetched_at < MIN_FETCH_INTERVAL_S:
                return
            self._limited_log.info(
                "a token names an unknown key; fetching the keys", about="", key_id=key_id
            )
            self._fetching = asyncio.get_running_loop().create_task(self._fetch_or_keep())
        # The login of one client may end before; the fetch is for all of them.
        await asyncio.shield(self._fetching)

    async def _refresh(self) -> None:
        failures = 0
        while True:
            pause_s = self._retry_pause_s(failures) if failures else self._settings.refresh_s
            await asyncio.sleep(max(MIN_PAUSE_S, pause_s))
            failures = 0 if await self._try_fetch() else failures + 1

    async def _fetch_or_keep(self) -> None:
        try:
            await self._try_fetch()
        finally:
            self._fetching = None

    async def _try_fetch(self) -> bool:
        try:
            await self._fetch_keys()
        except FetchFailed as error:
            self._limited_log.warning(
                "cannot fetch the keys for OAUTHBEARER; the last ones stay valid",
                about=self._settings.keys_url,
                url=self._settings.keys_url,
                error=str(error),
            )
            return False
        return True

    async def _fetch_keys(self) -> None:
        self._fetched_at = self._clock.monotonic()
        try:
            self._keys = parse_keys(await self._fetch(self._settings.keys_url))
        except InvalidKeys as error:
            raise FetchFailed(f"invalid keys: {error}") from error
        except Exception as error:
            # Whatever goes wrong between here and the server: logins with known keys must go on.
            raise FetchFailed(str(error) or type(error).__name__) from error

    def _retry_pause_s(self, failures: int) -> float:
        settings = self._settings
        pause_s: float = settings.retry_s * 2 ** min(failures - 1, 32)
        return max(MIN_PAUSE_S, min(pause_s, settings.retry_max_s))
