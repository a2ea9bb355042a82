"""Open connections, one per address, each with the versions that its broker serves.

A broker may limit how long an authenticated session lasts (`connections.max.reauth.ms`, the expiry
of a token). Before that time, new requests use a new connection.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from headrace.client.errors import (
    ClientClosed,
    ConnectionFailed,
    ConnectionLost,
    RequestTimedOut,
)
from headrace.client.login.authentication import authenticate
from headrace.client.login.security import PLAINTEXT, Security
from headrace.client.login.tls_context import tls_context
from headrace.client.network.connection import Address, ClientConnection, connect
from headrace.client.network.frames import Room
from headrace.client.network.versions import VersionRanges, negotiate

RENEW_AT: Final = 0.8
"""The share of a session's lifetime after which new requests use a new connection."""


@dataclass(frozen=True, slots=True)
class PooledConnection:
    """A connection with the versions that its broker supports."""

    connection: ClientConnection
    versions: VersionRanges
    renew_at: float | None = None
    """The loop's time; None if the session lasts as long as the connection."""

    @property
    def is_usable(self) -> bool:
        """Whether the connection is open and its session not about to expire."""
        is_due = self.renew_at is not None and asyncio.get_running_loop().time() >= self.renew_at
        return self.connection.is_open and not is_due


class ConnectionPool:
    """Connects on demand; concurrent callers for the same address share one attempt."""

    def __init__(
        self,
        *,
        client_id: str,
        software_version: str,
        connect_timeout_s: float,
        random: Random,
        security: Security = PLAINTEXT,
        room: Room = bytearray,
    ) -> None:
        self._client_id = client_id
        self._software_version = software_version
        self._connect_timeout_s = connect_timeout_s
        self._random = random
        self._security = security
        self._room = room
        self._tls: ssl.SSLContext | None = None
        self._attempts: dict[Address, asyncio.Task[PooledConnection]] = {}
        self._expiring: dict[ClientConnection, asyncio.TimerHandle] = {}
        self._closed = False

    def open_addresses(self) -> list[Address]:
        """The addresses with an open connection; those that do not answer only if all are so."""
        found = {
            address: session
            for address, task in self._attempts.items()
            if (session := _session_of(task)) is not None
        }
        answering = [each for each, of in found.items() if not of.connection.is_silent]
        return answering or list(found)

    async def session(self, address: Address) -> PooledConnection:
        """A usable connection to `address`; raises `ClientError` if it cannot be opened."""
        if self._closed:
            raise ClientClosed("the client is closed")
        task = self._attempts.get(address)
        if task is None or (task.done() and _session_of(task) is None):
            task = asyncio.get_running_loop().create_task(self._open(address))
            self._attempts[address] = task
        try:
            # One caller's cancellation must not end the attempt that others wait for.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Only `close` cancels the attempt itself.
            if task.cancelled():
                raise ClientClosed("the client is closed") from None
            raise

    async def close(self) -> None:
        self._closed = True
        attempts, self._attempts = self._attempts, {}
        for task in attempts.values():
            task.cancel()
        await asyncio.gather(*attempts.values(), return_exceptions=True)
        for task in attempts.values():
            session = _session_of(task)
            if session is not None:
                await session.connection.close()
        expiring, self._expiring = self._expiring, {}
        for connection, timer in expiring.items():
            timer.cancel()
            await connection.close()

    async def _open(self, address: Address) -> PooledConnection:
        if self._security.tls is not None and self._tls is None:
            self._tls = tls_context(self._security.tls)
        connection = await connect(
            address,
            client_id=self._client_id,
            timeout_s=self._connect_timeout_s,
            tls=self._tls,
            room=self._room,
        )
        try:
            versions = await negotiate(
                connection,
                software_version=self._software_version,
                timeout_s=self._connect_timeout_s,
            )
            lifetime_s = None
            if self._security.sasl is not None:
                lifetime_s = await authenticate(
                    connection,
                    versions,
                    self._security.sasl,
                    random=self._random,
                    timeout_s=self._connect_timeout_s,
                )
        except BaseException:
            await connection.close()
            raise
        if lifetime_s is None:
            return PooledConnection(connection, versions)
        loop = asyncio.get_running_loop()
        # Requests in flight have the rest of the lifetime to end.
        self._expiring[connection] = loop.call_later(lifetime_s, self._expire, connection)
        return PooledConnection(connection, versions, loop.time() + lifetime_s * RENEW_AT)

    def _expire(self, connection: ClientConnection) -> None:
        del self._expiring[connection]
        connection.abort()


async def first_session(
    pool: ConnectionPool, addresses: Sequence[Address], stagger_s: float
) -> PooledConnection:
    """The first connection that is ready; `ConnectionFailed` with every reason if there is none.

    The next address is tried when one has failed, or has been silent for `stagger_s`. The
    connection of a slower attempt stays in the pool.
    """
    left = list(addresses)
    waiting: set[asyncio.Task[PooledConnection]] = set()
    failures: list[str] = []
    try:
        while left or waiting:
            if left:
                waiting.add(asyncio.create_task(pool.session(left.pop(0))))
            done, waiting = await asyncio.wait(
                waiting, timeout=stagger_s if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            ended = [(task.exception(), task) for task in done]
            for error, task in ended:
                if error is None:
                    return task.result()
            for error, _ in ended:
                if not isinstance(error, ConnectionFailed | ConnectionLost | RequestTimedOut):
                    assert error is not None
                    raise error
                failures.append(str(error))
    finally:
        for task in waiting:
            task.cancel()
    raise ConnectionFailed("no broker can be reached: " + "; ".join(failures))


def _session_of(task: asyncio.Task[PooledConnection]) -> PooledConnection | None:
    """The session of a finished attempt while it can be used for new requests."""
    if not task.done() or task.cancelled() or task.exception() is not None:
        return None
    session = task.result()
    return session if session.is_usable else None
