"""Connections to the other brokers of the cluster.

Each peer has one connection for each `channel`, made when it is first needed and again after it
ended: requests on one channel never wait behind those on another. Peers speak the newest version of
each API that they know: ApiVersions is silent about what brokers say among themselves.

A connection belongs to one life of its peer. A machine that has lost its power says nothing, and
who waits for an answer of its earlier life would wait until a timeout: so such connections end
when the next life is known.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from headrace.client.connection import Address, ClientConnection, connect, spec_of
from headrace.client.errors import ClientClosed, UnknownBroker
from headrace.protocol.struct import Struct

R = TypeVar("R", bound=Struct)

CONTROL: Final = "control"
REPLICATION: Final = "replication"
METADATA: Final = "metadata"

CONNECT_TIMEOUT_S: Final = 5.0  # a peer is on the same network; its silence is soon silence enough
CLIENT_ID_PREFIX: Final = "headrace-broker-"


class _Line(NamedTuple):
    """A connection to a peer, or the attempt to make one."""

    address: Address
    life: bytes | None
    attempt: "asyncio.Task[ClientConnection]"

    @property
    def is_usable(self) -> bool:
        if not self.attempt.done():
            return True
        if self.attempt.cancelled() or self.attempt.exception() is not None:
            return False
        return self.attempt.result().is_open


class Peers:
    """Requests to other brokers, by their ids.

    `address_of` says where one listens now, `life_of` which of its lives it is in: None if nobody
    knows.
    """

    def __init__(
        self,
        node_id: int,
        address_of: Callable[[int], Address | None],
        life_of: Callable[[int], bytes | None] = lambda _broker_id: None,
    ) -> None:
        self._client_id = f"{CLIENT_ID_PREFIX}{node_id}"
        self._address_of = address_of
        self._life_of = life_of
        self._lines: dict[tuple[int, str], _Line] = {}
        self._closed = False
        self.on_lost: Callable[[int], None] = lambda broker_id: None
        """Told of a peer that has ended a connection."""

    async def request(
        self,
        broker_id: int,
        request: Struct,
        answer: type[R],
        *,
        timeout_s: float,
        channel: str = CONTROL,
        version: int | None = None,
    ) -> R:
        """The peer's answer; `ClientError` if there is none to be had."""
        connection = await self.connection(broker_id, channel, timeout_s=timeout_s)
        if version is None:
            version = spec_of(request).max_version
        return await connection.request(request, answer, version=version, timeout_s=timeout_s)

    async def connection(
        self, broker_id: int, channel: str, *, timeout_s: float = CONNECT_TIMEOUT_S
    ) -> ClientConnection:
        """The open connection of this channel, for those who write requests themselves."""
        if self._closed:
            raise ClientClosed("this broker stops")
        address = self._address_of(broker_id)
        if address is None:
            raise UnknownBroker(f"no address of broker {broker_id} is known")
        self.drop_earlier_lives()
        line = self._lines.get((broker_id, channel))
        if line is None or line.address != address or not line.is_usable:
            if line is not None:
                self._drop(line)
            loop = asyncio.get_running_loop()
            timeout_s = min(timeout_s, CONNECT_TIMEOUT_S)
            attempt = loop.create_task(self._connect(broker_id, address, timeout_s))
            line = _Line(address, self._life_of(broker_id), attempt)
            self._lines[broker_id, channel] = line
        try:
            # Callers share one attempt: a cancelled one must not end it for the others.
            return await asyncio.shield(line.attempt)
        except asyncio.CancelledError:
            if line.attempt.cancelled():
                raise ClientClosed(f"the connection to {address} was closed") from None
            raise

    def drop_earlier_lives(self) -> None:
        """Ends connections to peers that have begun another life; whoever waits is told."""
        for (broker_id, channel), line in list(self._lines.items()):
            life = self._life_of(broker_id)
            if life is not None and line.life is not None and life != line.life:
                del self._lines[broker_id, channel]
                self._drop(line)

    def hang_up(self) -> None:
        """Ends all connections at once; whoever waits is told."""
        self._closed = True
        lines, self._lines = self._lines, {}
        for line in lines.values():
            self._drop(line)

    async def _connect(
        self, broker_id: int, address: Address, timeout_s: float
    ) -> ClientConnection:
        made = await connect(address, client_id=self._client_id, timeout_s=timeout_s)
        made.on_end = lambda: self._ended(broker_id, address)
        return made

    def _ended(self, broker_id: int, address: Address) -> None:
        if not self._closed and self._address_of(broker_id) == address:
            self.on_lost(broker_id)

    def _drop(self, line: _Line) -> None:
        attempt = line.attempt
        attempt.cancel()
        if attempt.done() and not attempt.cancelled() and attempt.exception() is None:
            connection = attempt.result()
            connection.on_end = lambda: None  # our own hanging up is no sign of a crash
            connection.abort()
