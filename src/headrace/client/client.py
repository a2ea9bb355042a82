"""Requests to a cluster: find the right broker, use its version, retry until a deadline.

A request names its target by role: any broker, the controller, a broker id, the leader of a
partition, or the coordinator of a group or transactional id. When the role has moved, the client
finds the new broker and sends the request again. A request whose connection broke is sent again
too, so it may be executed twice. That is safe for reads and idempotent writes; for others pass
`retry=False`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from headrace import __version__
from headrace.client.coordinators import (
    CoordinatorCache,
    CoordinatorNode,
    coordinator_of,
    find_coordinator,
)
from headrace.client.errors import (
    ClientError,
    DeadlineExceeded,
    RequestRefused,
    RequestTimedOut,
    code_of_number,
)
from headrace.client.login.security import PLAINTEXT, Security
from headrace.client.metadata import NO_BROKER, MetadataCache, metadata_request
from headrace.client.network.connection import Address, spec_of
from headrace.client.network.connection_pool import ConnectionPool, PooledConnection, first_session
from headrace.client.network.frames import Room
from headrace.client.network.retry import Backoff, Deadline
from headrace.clock import Clock
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.find_coordinator import FindCoordinatorResponse
from headrace.protocol.messages.metadata import MetadataResponse
from headrace.protocol.struct import Struct

R = TypeVar("R", bound=Struct)

DEFAULT_TIMEOUT_S = 30.0
DEFAULT_REQUEST_TIMEOUT_S = 10.0
DEFAULT_CONNECT_TIMEOUT_S = 5.0
DEFAULT_PORT = 9092
MAX_STAGGER_S = 0.5
"""The time without an answer from one address after which the next one is tried in parallel."""

# Errors after which the client must refresh its metadata.
_STALE_METADATA_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class ToAnyBroker:
    """The first broker that answers."""

    def __str__(self) -> str:
        return "any broker"


@dataclass(frozen=True, slots=True)
class ToController:
    """The broker that Metadata names as the controller."""

    def __str__(self) -> str:
        return "the controller"


@dataclass(frozen=True, slots=True)
class ToBroker:
    """The broker with this id."""

    id: int

    def __str__(self) -> str:
        return f"broker {self.id}"


@dataclass(frozen=True, slots=True)
class ToLeader:
    """The broker that leads this partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"the leader of {self.topic}-{self.partition}"


Target: TypeAlias = ToAnyBroker | ToController | ToBroker | ToLeader | CoordinatorNode
ANY = ToAnyBroker()


def parse_servers(servers: str | Iterable[str]) -> tuple[Address, ...]:
    """The addresses in `host:port,host:port` or a list of these; the default port is 9092."""
    texts = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = tuple(_parse_server(text.strip()) for text in texts if text.strip())
    if not addresses:
        raise ValueError("no bootstrap server is set; use for example localhost:9092")
    return addresses


def _parse_server(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        host, port = text, str(DEFAULT_PORT)
    if not port.isdecimal() or not 0 < int(port) < 2**16 or not host:
        raise ValueError(f"bootstrap server {text!r} is not host:port, for example localhost:9092")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _error_code(answer: Struct) -> int:
    """The top-level error code of a response; the default `code_of` of `send`."""
    return int(getattr(answer, "error_code", 0))


class ClusterClient:
    """A client of one cluster. `async with` closes it."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        client_id: str,
        clock: Clock,
        random: Random,
        backoff: Backoff | None = None,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
        security: Security = PLAINTEXT,
        room: Room = bytearray,
    ) -> None:
        """`room` allocates the memory for large responses, which keep it."""
        self.metadata = MetadataCache()
        self._coordinators: CoordinatorCache = {}
        self._bootstrap = parse_servers(bootstrap_servers)
        self._clock = clock
        self._random = random
        self._backoff = backoff or Backoff()
        self._request_timeout_s = request_timeout_s
        self._pool = ConnectionPool(
            client_id=client_id,
            software_version=__version__,
            connect_timeout_s=connect_timeout_s,
            random=random,
            security=security,
            room=room,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections; pending requests fail with an error."""
        await self._pool.close()

    async def send(
        self,
        request: Struct,
        answer: type[R],
        *,
        to: Target = ANY,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retry: bool = True,
        at_least: int = 0,
        at_most: int | None = None,
        code_of: Callable[[R], int] = _error_code,
    ) -> R:
        """Sends `request` and returns the response, an `answer`.

        `at_least` and `at_most` limit the versions that can carry the caller's fields; raises
        `UnsupportedByBroker` if the broker supports none of them. If `code_of` the response is
        retriable, the request is sent again until the deadline, and then raises `DeadlineExceeded`.
        The caller handles any other code.
        """
        deadline = Deadline(self._clock, timeout_s)
        last: ClientError | None = None
        attempts = 0
        while True:
            attempts += 1
            failure: ClientError
            try:
                got = await self._send_once(request, answer, to, deadline, at_least, at_most)
                code = code_of_number(code_of(got))
                if not (retry and code.retriable):
                    return got
                failure = RequestRefused(code, f"{spec_of(request).name} to {to}")
            except ClientError as error:
                if not (retry and error.retriable):
                    raise
                failure = error
            self._forget_stale(failure, to)
            # The failure before an attempt that reached the deadline is more informative.
            if last is None or not isinstance(failure, RequestTimedOut):
                last = failure
            delay_s = self._backoff.delay_s(attempts, self._random)
            if delay_s >= deadline.remaining_s():
                what = f"{spec_of(request).name} to {to}"
                raise DeadlineExceeded(what, timeout_s, attempts, last) from last
            await asyncio.sleep(delay_s)

    async def refresh(
        self, topics: Sequence[str] | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> MetadataCache:
        """Refreshes the metadata of these topics, or of all with None, and returns the cache."""
        answer = await self.send(metadata_request(topics), MetadataResponse, timeout_s=timeout_s)
        self.metadata.update(answer)
        return self.metadata

    async def ping(self, broker: int, *, timeout_s: float) -> None:
        """Asks a broker for the list of brokers; raises `ClientError` if it does not answer."""
        await self.send(
            metadata_request([]), MetadataResponse, to=ToBroker(broker), timeout_s=timeout_s
        )

    async def _send_once(
        self,
        request: Struct,
        answer: type[R],
        to: Target,
        deadline: Deadline,
        at_least: int = 0,
        at_most: int | None = None,
    ) -> R:
        try:
            # This timeout does not end the connection attempt: other callers may wait for it too.
            async with asyncio.timeout(deadline.remaining_s()):
                session = await self._session_for(to, deadline)
        except TimeoutError:
            raise RequestTimedOut(self._no_session(to, deadline)) from None
        version = session.versions.pick(spec_of(request), at_least=at_least, at_most=at_most)
        return await session.connection.request(
            request, answer, version=version, timeout_s=self._request_timeout_within(deadline)
        )

    async def _session_for(self, to: Target, deadline: Deadline) -> PooledConnection:
        match to:
            case ToAnyBroker():
                return await self._any_session(deadline)
            case ToBroker(id=broker_id):
                if broker_id not in self.metadata.brokers:
                    await self._fetch_metadata([], deadline)
            case ToController():
                if self.metadata.controller_id == NO_BROKER:
                    await self._fetch_metadata([], deadline)
                broker_id = self.metadata.controller_id
            case ToLeader(topic=topic, partition=partition):
                if self.metadata.topic(topic) is None:
                    await self._fetch_metadata([topic], deadline)
                broker_id = self.metadata.leader_of(topic, partition)
            case CoordinatorNode():
                if to not in self._coordinators:
                    self._coordinators[to] = await self._find_coordinator(to, deadline)
                return await self._pool.session(self._coordinators[to])
        return await self._pool.session(self.metadata.address_of(broker_id))

    async def _fetch_metadata(self, topics: Sequence[str], deadline: Deadline) -> None:
        """Refreshes the metadata in one attempt; the caller's loop retries."""
        request = metadata_request(topics)
        answer = await self._send_once(request, MetadataResponse, ANY, deadline)
        self.metadata.update(answer)

    async def _find_coordinator(self, wanted: CoordinatorNode, deadline: Deadline) -> Address:
        """Finds the coordinator in one attempt; raises the broker's error."""
        session = await self._any_session(deadline)
        request = find_coordinator(wanted, session.versions)
        version = session.versions.pick(spec_of(request))
        answer = await session.connection.request(
            request,
            FindCoordinatorResponse,
            version=version,
            timeout_s=self._request_timeout_within(deadline),
        )
        return coordinator_of(wanted, answer)

    async def _any_session(self, deadline: Deadline) -> PooledConnection:
        """An open connection if there is one, else the first that a broker accepts.

        A broker that is stopped or overloaded may accept a connection and not answer, so the
        addresses are tried in parallel, each a short time after the one before.
        """
        ready = self._pool.open_addresses()
        if ready:
            return await self._pool.session(self._random.choice(ready))
        candidates = self._candidates()
        self._random.shuffle(candidates)
        stagger_s = min(MAX_STAGGER_S, deadline.remaining_s() / (2 * len(candidates)))
        return await first_session(self._pool, candidates, stagger_s)

    def _candidates(self) -> list[Address]:
        return list(dict.fromkeys([*self.metadata.brokers.values(), *self._bootstrap]))

    def _no_session(self, to: Target, deadline: Deadline) -> str:
        if not isinstance(to, ToAnyBroker):
            return f"no connection to {to} within {deadline.timeout_s:g} s"
        tried = ", ".join(map(str, self._candidates()))
        return f"no broker answered within {deadline.timeout_s:g} s (tried {tried})"

    def _request_timeout_within(self, deadline: Deadline) -> float:
        remaining_s = deadline.remaining_s()
        if not remaining_s:
            raise RequestTimedOut("the deadline passed before the request could be sent")
        return min(self._request_timeout_s, remaining_s)

    def _forget_stale(self, failure: ClientError, to: Target) -> None:
        """Drops the metadata that the failure shows to be stale, so the next attempt fetches it."""
        if isinstance(failure, RequestRefused) and failure.code not in _STALE_METADATA_ERRORS:
            return
        match to:
            case ToLeader(topic=topic):
                self.metadata.forget(topic)
            case ToController():
                self.metadata.controller_id = NO_BROKER
            case ToBroker(id=broker_id):
                self.metadata.brokers.pop(broker_id, None)
            case CoordinatorNode():
                self._coordinators.pop(to, None)
            case ToAnyBroker():
                pass
