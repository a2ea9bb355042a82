"""Connections to the other brokers of the cluster.

Each peer has one connection per `channel`. It is opened when it is first needed, and again after it
ended. Requests on one channel never wait for those on another. Peers use the newest version of each
API that they know: ApiVersions does not list the APIs that only brokers use.

A connection belongs to one incarnation of its peer. A machine that lost power sends nothing, and a
request to its earlier incarnation would wait for its timeout. So such connections are closed as
soon as the next incarnation is known.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from headrace.broker.access.request_origin import ORIGIN_MARK
from headrace.broker.quotas.exemption import BROKER_CLIENT_ID_PREFIX
from headrace.client.errors import ClientClosed, UnknownBroker
from headrace.client.network.connection import Address, ClientConnection, connect, spec_of
from headrace.protocol.struct import Struct

R = TypeVar("R", bound=Struct)

CONTROL: Final = "control"
REPLICATION: Final = "replication"
METADATA: Final = "metadata"

CONNECT_TIMEOUT_S: Final = 5.0  # a peer is on the same network
CLIENT_ID_PREFIX: Final = BROKER_CLIENT_ID_PREFIX


class PeerConnector(Protocol):
    """Opens connections to other brokers."""

    async def __call__(
        self, address: Address, /, *, client_id: str, timeout_s: float
    ) -> ClientConnection:
        """An open connection, after the login; raises `ClientError`."""
        ...


class _PeerConnection(NamedTuple):
    """A connection to a peer, or the attempt to open one."""

    address: Address
    incarnation: bytes | None
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

    `address_of` returns the current address of a broker, `incarnation_of` its current incarnation;
    both return None if it is unknown. `connector` is for listeners with TLS or SASL.
    """

    def __init__(
        self,
        node_id: int,
        address_of: Callable[[int], Address | None],
        incarnation_of: Callable[[int], bytes | None] = lambda _broker_id: None,
        connector: PeerConnector = connect,
    ) -> None:
        self._client_id = f"{CLIENT_ID_PREFIX}{node_id}"
        self._address_of = address_of
        self._incarnation_of = incarnation_of
        self._connector = connector
        self._connections: dict[tuple[int, str], _PeerConnection] = {}
        self._closed = False
        self.on_lost: Callable[[int], None] = lambda broker_id: None
        """Called with the id of a peer that has closed a connection."""

    async def request(
        self,
        broker_id: int,
        request: Struct,
        answer: type[R],
        *,
        timeout_s: float,
        channel: str = CONTROL,
        version: int | None = None,
        origin: str | None = None,
    ) -> R:
        """The peer's response; raises `ClientError` if there is none.

        `origin` names the client whose request this broker forwards, for the peer's log.
        """
        connection = await self.connection(broker_id, channel, timeout_s=timeout_s)
        if version is None:
            version = spec_of(request).max_version
        client_id = None if origin is None else f"{self._client_id}{ORIGIN_MARK}{origin}"
        return await connection.request(
            request, answer, version=version, timeout_s=timeout_s, client_id=client_id
        )

    async def connection(
        self, broker_id: int, channel: str, *, timeout_s: float = CONNECT_TIMEOUT_S
    ) -> ClientConnection:
        """The open connection of this channel, for callers that write requests themselves."""
        if self._closed:
            raise ClientClosed("this broker is stopping")
        address = self._address_of(broker_id)
        if address is None:
            raise UnknownBroker(f"the address of broker {broker_id} is unknown")
        self.drop_earlier_incarnations()
        peer = self._connections.get((broker_id, channel))
        if peer is None or peer.address != address or not peer.is_usable:
            if peer is not None:
                self._drop_connection(peer)
            loop = asyncio.get_running_loop()
            timeout_s = min(timeout_s, CONNECT_TIMEOUT_S)
            attempt = loop.create_task(self._connect(broker_id, address, timeout_s))
            peer = _PeerConnection(address, self._incarnation_of(broker_id), attempt)
            self._connections[broker_id, channel] = peer
        try:
            # Callers share one attempt: a cancelled caller must not cancel it for the others.
            return await asyncio.shield(peer.attempt)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if peer.attempt.cancelled() and not (caller and caller.cancelling()):
                raise ClientClosed(f"the connection to {address} was closed") from None
            raise

    def drop_earlier_incarnations(self) -> None:
        """Closes connections to earlier incarnations of peers; their pending requests fail."""
        for (broker_id, channel), peer in list(self._connections.items()):
            incarnation = self._incarnation_of(broker_id)
            if (
                incarnation is not None
                and peer.incarnation is not None
                and incarnation != peer.incarnation
            ):
                del self._connections[broker_id, channel]
                self._drop_connection(peer)

    def hang_up(self) -> None:
        """Closes all connections at once; their pending requests fail."""
        self._closed = True
        peers, self._connections = self._connections, {}
        for peer in peers.values():
            self._drop_connection(peer)

    async def _connect(
        self, broker_id: int, address: Address, timeout_s: float
    ) -> ClientConnection:
        made = await self._connector(address, client_id=self._client_id, timeout_s=timeout_s)
        made.on_end = lambda: self._connection_ended(broker_id, address)
        return made

    def _connection_ended(self, broker_id: int, address: Address) -> None:
        if not self._closed and self._address_of(broker_id) == address:
            self.on_lost(broker_id)

    def _drop_connection(self, peer: _PeerConnection) -> None:
        attempt = peer.attempt
        attempt.cancel()
        if attempt.done() and not attempt.cancelled() and attempt.exception() is None:
            connection = attempt.result()
            connection.on_end = lambda: None  # this broker closed it: the peer has not crashed
            connection.abort()
