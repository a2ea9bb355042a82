"""Open connections, one per address, each with the API versions that its broker supports."""

import asyncio
import ssl
from dataclasses import dataclass
from random import Random

from headrace.client.authentication import authenticate, tls_context
from headrace.client.connection import Address, ClientConnection, connect
from headrace.client.errors import ClientClosed
from headrace.client.frames import Room
from headrace.client.security import PLAINTEXT, Security
from headrace.client.versions import VersionRanges, negotiate


@dataclass(frozen=True, slots=True)
class PooledConnection:
    """A connection with the API versions that its broker supports."""

    connection: ClientConnection
    versions: VersionRanges


class ConnectionPool:
    """Connects on demand; concurrent callers for one address share one attempt."""

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
        self._closed = False

    def open_addresses(self) -> list[Address]:
        """The addresses with an open connection."""
        return [address for address, task in self._attempts.items() if _open_session(task)]

    async def session(self, address: Address) -> PooledConnection:
        """An open connection to `address`; raises `ClientError` if it cannot be opened."""
        if self._closed:
            raise ClientClosed("the client is closed")
        task = self._attempts.get(address)
        if task is None or (task.done() and _open_session(task) is None):
            task = asyncio.get_running_loop().create_task(self._connect(address))
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
            session = _open_session(task)
            if session is not None:
                await session.connection.close()

    async def _connect(self, address: Address) -> PooledConnection:
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
            if self._security.sasl is not None:
                await authenticate(
                    connection,
                    versions,
                    self._security.sasl,
                    random=self._random,
                    timeout_s=self._connect_timeout_s,
                )
        except BaseException:
            await connection.close()
            raise
        return PooledConnection(connection, versions)


def _open_session(task: asyncio.Task[PooledConnection]) -> PooledConnection | None:
    """The result of a finished attempt, if its connection is still open."""
    if not task.done() or task.cancelled() or task.exception() is not None:
        return None
    session = task.result()
    return session if session.connection.is_open else None
