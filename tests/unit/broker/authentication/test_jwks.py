"""The keys of OAUTHBEARER: the first fetch, later ones, and failures, on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.broker.authentication.jwks import MIN_FETCH_INTERVAL_S, START_ATTEMPTS, Jwks
from headrace.broker.runtime.errors import StartupError
from headrace.cluster.sasl_settings import OAuthBearerSettings
from headrace.security.sasl.exchange import Challenge, Success, UnknownKey
from support.brokers.virtual_loop import run_virtually
from support.security.signed_tokens import (
    AUDIENCE,
    ISSUER,
    claims,
    key_entry,
    key_set,
    rsa_key,
    signed,
)

SETTINGS = OAuthBearerSettings(
    keys_url="https://issuer.test/keys",
    issuer=ISSUER,
    audiences=(AUDIENCE,),
    scope_claim="scope",
    subject_claim="sub",
    clock_skew_s=30,
    refresh_s=3600.0,
    retry_s=0.1,
    retry_max_s=10.0,
)


def old_key() -> dict[str, Any]:
    return key_entry(rsa_key(), "old")


def new_key() -> dict[str, Any]:
    return key_entry(rsa_key(1), "new")


class Issuer:
    """Serves keys, or fails."""

    def __init__(self) -> None:
        self.keys = key_set(old_key())
        self.failure: Exception | None = None
        self.fetched = 0

    async def fetch(self, url: str) -> bytes:
        assert url == SETTINGS.keys_url
        self.fetched += 1
        await asyncio.sleep(0.01)
        if self.failure is not None:
            raise self.failure
        return self.keys


class LoopClock:
    """The virtual loop's time, and a wall clock at the time of the tokens."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        return int(claims()["iat"]) * 1000


def run(scenario: Callable[[Jwks, Issuer], Awaitable[None]]) -> None:
    async def main() -> None:
        issuer = Issuer()
        jwks = Jwks(SETTINGS, LoopClock(), issuer.fetch)
        try:
            await scenario(jwks, issuer)
        finally:
            jwks.stop()

    run_virtually(main())


def message(key_id: str) -> bytes:
    key = rsa_key(1 if key_id == "new" else 0)
    return f"n,,\1auth=Bearer {signed(key=key, key_id=key_id)}\1\1".encode()


def accepts(jwks: Jwks, key_id: str) -> bool:
    return isinstance(jwks.exchange().respond(message(key_id)), Success)


def test_keys_are_fetched_before_the_first_login_and_at_intervals() -> None:
    async def scenario(jwks: Jwks, issuer: Issuer) -> None:
        await jwks.start()
        assert accepts(jwks, "old")
        issuer.keys = key_set(new_key())
        await asyncio.sleep(SETTINGS.refresh_s - 1)
        assert issuer.fetched == 1
        await asyncio.sleep(2)
        assert issuer.fetched == 2
        assert accepts(jwks, "new")
        assert not accepts(jwks, "old")

    run(scenario)


def test_a_broker_without_keys_does_not_start() -> None:
    async def scenario(jwks: Jwks, issuer: Issuer) -> None:
        for failure in (OSError("no route"), None):
            issuer.failure, issuer.keys, issuer.fetched = failure, b"<html>", 0
            with pytest.raises(StartupError, match=r"jwks\.endpoint\.url"):
                await jwks.start()
            assert issuer.fetched == START_ATTEMPTS

    run(scenario)


def test_a_failed_refresh_keeps_the_keys_and_tries_again_soon() -> None:
    async def scenario(jwks: Jwks, issuer: Issuer) -> None:
        await jwks.start()
        issuer.failure = OSError("no route")
        await asyncio.sleep(SETTINGS.refresh_s + 1)
        assert accepts(jwks, "old")
        failed = issuer.fetched
        assert 2 < failed < 10  # with growing pauses
        issuer.failure, issuer.keys = None, key_set(old_key(), new_key())
        await asyncio.sleep(SETTINGS.retry_max_s)
        assert accepts(jwks, "new")
        assert issuer.fetched == failed + 1

    run(scenario)


def test_an_unknown_key_is_fetched_at_once() -> None:
    async def scenario(jwks: Jwks, issuer: Issuer) -> None:
        await jwks.start()
        await asyncio.sleep(MIN_FETCH_INTERVAL_S)
        issuer.keys = key_set(new_key())
        exchange = jwks.exchange()
        assert exchange.respond(message("new")) == UnknownKey("new")
        await jwks.find_key("new")
        assert isinstance(exchange.respond(message("new")), Success)

    run(scenario)


def test_invented_key_ids_do_not_attack_the_issuer() -> None:
    async def scenario(jwks: Jwks, issuer: Issuer) -> None:
        await jwks.start()
        await asyncio.sleep(MIN_FETCH_INTERVAL_S)
        before = issuer.fetched
        await asyncio.gather(*(jwks.find_key(f"invented-{n}") for n in range(100)))
        for number in range(100):
            await jwks.find_key(f"invented-{number}")
        assert issuer.fetched == before + 1
        exchange = jwks.exchange()
        exchange.respond(message("invented"))
        assert isinstance(exchange.respond(message("invented")), Challenge)

    run(scenario)


def test_a_client_that_leaves_does_not_cancel_the_fetch_of_others() -> None:
    async def scenario(jwks: Jwks, issuer: Issuer) -> None:
        await jwks.start()
        await asyncio.sleep(MIN_FETCH_INTERVAL_S)
        issuer.keys = key_set(new_key())
        first = asyncio.ensure_future(jwks.find_key("new"))
        second = asyncio.ensure_future(jwks.find_key("new"))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert accepts(jwks, "new")

    run(scenario)
