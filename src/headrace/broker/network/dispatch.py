"""Decodes a frame, calls its handler, and encodes the handler's answer.

`api_handlers` names the handler of each API and its access rule; handlers and message classes are
imported on first use, so that a broker starts without them. With an authorizer, the access rule and
the `authorize` function of the handler's module are checked before the handler runs. A version that
this broker does not serve closes the connection, as Kafka does, unless the handler's module has
`answer_unsupported_version`: ApiVersions answers in version 0.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from headrace.broker.access.access_control import AccessControl
from headrace.broker.access.access_rule import AccessRule, ClusterAccess, is_between_brokers
from headrace.broker.access.audit_log import CURRENT_API
from headrace.broker.network.api_handlers import FORWARDED, HANDLERS
from headrace.broker.network.connection import Connection, Parts, Pipelined, Serial
from headrace.broker.quotas.client_quotas import ClientQuotas
from headrace.coordinator.common.request_context import RequestContext
from headrace.protocol.api import APIS, ApiKey, ApiSpec
from headrace.protocol.errors import ErrorCode, ProtocolError
from headrace.protocol.header import read_request_header
from headrace.protocol.struct import Reader, Struct
from headrace.security.session import INTERNAL, Session

if TYPE_CHECKING:
    from headrace.broker.access.request_check import Authorize
    from headrace.broker.quotas.request_throttling import RequestCharge

_HEAD = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
_NO_TAGS = b"\0"
_API_VERSIONS = ApiKey.API_VERSIONS
_FETCH = ApiKey.FETCH
_PREFIX = struct.Struct(">ii")
_FLEXIBLE_PREFIX = struct.Struct(">iib")  # the tagged fields of the response header: none


class UnsupportedRequest(ProtocolError):
    """An API key or version that this broker does not serve."""


class Context:
    """A request apart from its body: the connection, the version and the frame."""

    __slots__ = ("_connection", "_session", "frame", "version")

    def __init__(
        self,
        connection: Connection | None,
        version: int,
        frame: bytes | memoryview,
        session: Session | None = None,
    ) -> None:
        """`session` is the client's if another broker forwarded the request."""
        self._connection = connection
        self._session = session
        self.version = version
        self.frame = frame

    @property
    def session(self) -> Session:
        """Whom the request acts for."""
        if self._session is not None:
            return self._session
        return INTERNAL if self._connection is None else self._connection.session

    @property
    def connection(self) -> Connection:
        """The client's connection; a request from this broker itself has none."""
        assert self._connection is not None
        return self._connection

    @property
    def client_id(self) -> str:
        """The client id of the request; empty if there is none."""
        if len(self.frame) < _HEAD.size:  # a request of this broker itself
            return ""
        *_, size = _HEAD.unpack_from(self.frame)
        return str(self.frame[_HEAD.size : _HEAD.size + max(0, size)], "utf-8", "replace")

    @property
    def client_host(self) -> str:
        """The client's address as Kafka's tools show it, with a leading slash."""
        return f"/{self.connection.peer.rpartition(':')[0]}"

    def request_context(self) -> RequestContext:
        """The client, as a coordinator's shard sees it."""
        return RequestContext(self.version, self.client_id, self.client_host, self.session)


Answer = Struct | bytes | None
Reply = Answer | Coroutine[object, object, Answer] | asyncio.Future[Answer]
Handle = Callable[[Context, Struct], Reply]
"""A handler, bound to its broker."""
T = TypeVar("T")


async def resolve_reply(reply: T | Awaitable[T]) -> T:
    """The answer of a handler or a coordinator; waits if the reply is a future."""
    return await reply if isinstance(reply, Awaitable) else reply


class RequestHost(Protocol):
    """The broker whose requests are dispatched. Handlers take it as their first argument."""

    access: AccessControl
    quotas: ClientQuotas

    @property
    def is_member(self) -> bool:
        """Whether the broker belongs to a cluster of several brokers."""
        ...

    def controller_handler(self, spec: ApiSpec, handle: Handle) -> Handle:
        """The handler of an API that only the controller decides, for any broker."""
        ...

    def traced_handler(self, key: ApiKey, handle: Handle) -> Handle:
        """The handler with tracing, if the API is traced."""
        ...


class Route:
    """One API: its versions, message classes and handler."""

    __slots__ = (
        "answer_unsupported_version",
        "flexible_since",
        "handle",
        "in_place",
        "is_between_brokers",
        "max_version",
        "min_version",
        "reader",
        "readers",
        "spec",
    )

    def __init__(
        self,
        spec: ApiSpec,
        handle: Handle,
        answer_unsupported_version: Callable[[], Struct] | None,
        *,
        is_between_brokers: bool,
    ) -> None:
        self.spec = spec
        self.answer_unsupported_version = answer_unsupported_version
        self.min_version = spec.min_version
        self.max_version = spec.max_version
        self.flexible_since = spec.flexible_since
        self.handle = handle
        self.reader = spec.request.reader
        self.readers: dict[int, Reader] = {}
        # Produce appends its payload before it first waits, so it may read from the receive
        # buffer; every other request gets its own copy of a small frame.
        self.in_place = spec.key is ApiKey.PRODUCE
        self.is_between_brokers = is_between_brokers  # no quota applies


class Dispatcher:
    """Finds and runs the handlers of one broker."""

    def __init__(self, broker: RequestHost) -> None:
        self._broker = broker
        self._quotas = broker.quotas
        self._routes: dict[int, Route] = {}

    def dispatch(
        self, connection: Connection, frame: memoryview
    ) -> Parts | Pipelined | Serial | None:
        """Starts one request; raises ProtocolError if it cannot be answered."""
        if len(frame) < _HEAD.size:
            msg = f"a request of {len(frame)} bytes has no header"
            raise UnsupportedRequest(msg)
        key, version, correlation_id, id_size = _HEAD.unpack_from(frame)
        route = self._routes.get(key) or self._route(key)
        if not route.min_version <= version <= route.max_version:
            return self._unsupported(route, version, correlation_id)
        body: memoryview | bytes = frame if route.in_place else bytes(frame)
        flexible = version >= route.flexible_since
        pos = _HEAD.size + id_size
        if id_size < 0 or pos > len(body) or (flexible and body[pos : pos + 1] != _NO_TAGS):
            # No client id, tagged fields after it, or invalid bytes: decode the whole header.
            _, pos = read_request_header(body, 0, len(body))
        elif flexible:
            pos += 1
        # Bytes after the message are ignored, as Kafka does: librdkafka 2.16 sends three of
        # them after a Metadata request for all topics.
        read = route.readers.get(version)
        if read is None:
            read = route.readers[version] = route.reader(version)
        context = Context(connection, version, body)
        quotas = self._quotas
        charge = quotas.charge(context, route.spec) if quotas.is_active else None
        request, _ = read(body, pos, len(body))
        if charge is not None and not route.is_between_brokers:
            return _dispatch_charged(route, context, request, correlation_id, charge)
        reply = route.handle(context, request)
        if reply is None:
            return None
        if isinstance(reply, bytes):  # a response that the handler had mostly encoded
            return [_framed(flexible, correlation_id, reply)]
        spec = route.spec
        if isinstance(reply, Struct):
            return encode(spec, version, correlation_id, reply)

        def encode_later(answer: object) -> Parts | None:
            if answer is None:
                return None
            if isinstance(answer, bytes):
                return [_framed(flexible, correlation_id, answer)]
            return encode(spec, version, correlation_id, cast("Struct", answer))

        if isinstance(reply, asyncio.Future):
            return Pipelined(cast("asyncio.Future[object]", reply), encode_later)
        return Serial(reply, encode_later)

    def _unsupported(self, route: Route, version: int, correlation_id: int) -> Parts:
        spec = route.spec
        if route.answer_unsupported_version is not None:
            return encode(spec, 0, correlation_id, route.answer_unsupported_version())
        served = f"{spec.min_version} to {spec.max_version}"
        msg = f"{spec.name} version {version}; served are {served}"
        raise UnsupportedRequest(msg)

    def _route(self, key: int) -> Route:
        try:
            api_key = ApiKey(key)
            entry = HANDLERS[api_key]
        except (ValueError, KeyError):
            msg = f"API key {key} is not served"
            raise UnsupportedRequest(msg) from None
        spec = APIS[api_key]
        if spec.for_members and not self._broker.is_member:
            msg = f"{spec.name} is for brokers of a cluster, and this node is standalone"
            raise UnsupportedRequest(msg)
        module = import_module(f"headrace.broker.handlers.{entry.module}")
        handle: Handle = partial(module.handle, self._broker)
        if api_key in FORWARDED:
            handle = self._broker.controller_handler(spec, handle)
        handle = _with_access(self._broker, spec, entry.access, module, handle)
        handle = self._broker.traced_handler(api_key, handle)
        unsupported = getattr(module, "answer_unsupported_version", None)
        if unsupported is not None:
            unsupported = partial(unsupported, self._broker)
        route = self._routes[key] = Route(
            spec, handle, unsupported, is_between_brokers=is_between_brokers(entry.access)
        )
        return route


def _dispatch_charged(
    route: Route, context: Context, request: Struct, correlation_id: int, charge: "RequestCharge"
) -> Parts | Pipelined | Serial | None:
    """Starts a request whose cost is charged to the quotas of its client."""
    spec, version = route.spec, context.version

    def encode_charged(answer: object) -> Parts | None:
        settled = charge.settle(cast("Answer", answer))
        if settled is None:
            return None
        if isinstance(settled, bytes):
            return [_framed(version >= route.flexible_since, correlation_id, settled)]
        charge.resume()
        parts = encode(spec, version, correlation_id, settled)
        charge.add_encoding()
        return parts

    reply = route.handle(context, request)
    charge.pause()
    if isinstance(reply, asyncio.Future):
        return Pipelined(cast("asyncio.Future[object]", reply), encode_charged)
    if isinstance(reply, Coroutine):
        return Serial(charge.measured(reply), encode_charged)
    return encode_charged(reply)


def handler_of(broker: RequestHost, key: ApiKey) -> Handle:
    """The handler of an API, for requests that come from this broker itself."""
    module = import_module(f"headrace.broker.handlers.{HANDLERS[key].module}")
    return partial(module.handle, broker)


def authorized_handler_of(broker: RequestHost, key: ApiKey) -> Handle:
    """The handler of an API, for requests that another broker forwards for a client."""
    entry, spec = HANDLERS[key], APIS[key]
    module = import_module(f"headrace.broker.handlers.{entry.module}")
    handle = _with_access(broker, spec, entry.access, module, partial(module.handle, broker))
    return _with_api_name(spec.name, handle) if broker.access.is_enforced else handle


def _with_access(
    broker: RequestHost, spec: ApiSpec, rule: AccessRule, module: ModuleType, handle: Handle
) -> Handle:
    """The handler with the checks of its access rule; without an authorizer the handler itself."""
    authorize: Authorize | None = getattr(module, "authorize", None)
    access = broker.access
    if not access.is_enforced:
        return handle
    if authorize is None and not isinstance(rule, ClusterAccess):
        names_itself: bool = getattr(module, "NAMES_ITSELF", False)
        return handle if names_itself else _with_api_name(spec.name, handle)
    from headrace.broker.access.request_check import RequestCheck, add_to_reply

    def authorized(context: Context, request: Struct) -> Reply:
        CURRENT_API.set(spec.name)
        check = RequestCheck(access, context.session, spec, context.version, request)
        if isinstance(rule, ClusterAccess) and not access.allows_cluster(
            context.session, *rule.operations
        ):
            return check.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        verdict = None if authorize is None else authorize(broker, check, request)
        if verdict is None:
            return handle(context, request)
        if isinstance(verdict, Struct):
            return verdict
        reply: Reply = add_to_reply(handle(context, request), verdict)
        return reply

    return authorized


def _with_api_name(name: str, handle: Handle) -> Handle:
    """The handler of an API whose decisions appear in the audit log with the API's name."""

    def named(context: Context, request: Struct) -> Reply:
        CURRENT_API.set(name)
        return handle(context, request)

    return named


def _framed(flexible: bool, correlation_id: int, answer: bytes) -> bytes:
    if flexible:
        return _FLEXIBLE_PREFIX.pack(len(answer) + 5, correlation_id, 0) + answer
    return _PREFIX.pack(len(answer) + 4, correlation_id) + answer


def encode(spec: ApiSpec, version: int, correlation_id: int, answer: Struct) -> Parts:
    """The whole response frame. Record payloads are not copied; the other fields are one buffer."""
    parts: Parts = []
    answer.write(version, parts)
    if spec.key is not _FETCH:
        parts = [b"".join(parts)]
    size = sum(map(len, parts))
    # ApiVersions always answers with the oldest header: the client does not know newer ones yet.
    if version >= spec.flexible_since and spec.key is not _API_VERSIONS:
        prefix = _FLEXIBLE_PREFIX.pack(size + 5, correlation_id, 0)
    else:
        prefix = _PREFIX.pack(size + 4, correlation_id)
    parts[0] = prefix + bytes(parts[0])
    return parts
