"""Injected faults: the next requests of an API fail, wait, or lose their connection.

    headrace.trouble.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2)

Requests pass through this module only while a fault waits for one, so a broker without faults runs
none of it. Faults never apply to requests of the `Headrace` helper itself.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from headrace.broker.fetch.fetch_session import FetchSession
from headrace.broker.network.api_handlers import HANDLERS
from headrace.broker.network.connection import Connection, Dispatch, Parts, Pipelined, Serial
from headrace.broker.network.dispatch import Context, encode
from headrace.protocol.api import APIS, ApiKey, ApiSpec
from headrace.protocol.error_responses import can_carry_error, error_response
from headrace.protocol.errors import ErrorCode
from headrace.protocol.header import read_request_header
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headrace.protocol.messages.produce import ProduceRequest
from headrace.protocol.struct import Struct
from headrace.security.principal import ANONYMOUS
from headrace.testing.client_id import CLIENT_ID

if TYPE_CHECKING:
    from headrace.broker.node import Broker as Node
    from headrace.testing.security import BrokerSecurity

T = TypeVar("T")

WAIT_S: Final = 30.0
ADMIN: Final = "admin"  # the user of the helper
MESSAGE: Final = "injected by a test"
_CODES: Final = {int(code): code for code in ErrorCode}

Sent = Parts | Pipelined | Serial | None
Api = str | int
Error = ErrorCode | str | int


class Runs(Protocol):
    """The part of a test broker that `Trouble` uses."""

    @property
    def node(self) -> "Node | None": ...

    @property
    def security(self) -> "BrokerSecurity | None": ...

    def on_loop(self, call: Callable[[], T]) -> T: ...


@dataclass(slots=True, eq=False)
class Fault:
    """A fault for the next requests of one API."""

    api: ApiKey
    left: int
    """The number of further requests it applies to."""
    client_id: str | None
    act: Callable[["_Request"], "Sent | _Missed"]
    hits: int = 0
    """The number of requests it was applied to."""
    _used_up: threading.Event = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self._used_up = threading.Event()

    def wait(self, timeout_s: float = WAIT_S) -> None:
        """Returns when all requests of the fault have arrived; raises TimeoutError."""
        if not self._used_up.wait(timeout_s):
            msg = f"{self.left} more requests of {APIS[self.api].name} did not come"
            raise TimeoutError(f"{msg} within {timeout_s:g} s")

    def hit(self) -> None:
        self.left -= 1
        self.hits += 1
        if not self.left:
            self._used_up.set()


class _Missed:
    """Returned for a request to which the fault does not apply."""


_MISSED: Final = _Missed()


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to which a fault applies."""

    node: "Node"
    connection: Connection
    frame: memoryview
    go_on: Dispatch
    spec: ApiSpec
    version: int
    correlation_id: int
    body_at: int

    def read(self) -> Struct:
        request, _ = self.spec.request.reader(self.version)(
            self.frame, self.body_at, len(self.frame)
        )
        return cast("Struct", request)

    def answer(self, answer: Struct) -> Parts:
        return encode(self.spec, self.version, self.correlation_id, answer)


class Trouble:
    """The faults of one broker. They survive its restarts."""

    def __init__(self, broker: Runs) -> None:
        self._broker = broker
        self._faults: list[Fault] = []
        self._go_on: Dispatch | None = None

    # --- for tests ------------------------------------------------------------------------------

    def fail(
        self, api: Api, error: Error, *, times: int = 1, client_id: str | None = None
    ) -> Fault:
        """Answers the next `times` requests with `error`, without carrying them out."""
        key, code = _api(api), _code(error)
        if not can_carry_error(APIS[key]):
            msg = f"{APIS[key].name} has no error code"
            raise ValueError(msg)
        return self._add(key, times, client_id, lambda request: _fail(request, code))

    def delay(
        self, api: Api, seconds: float, *, times: int = 1, client_id: str | None = None
    ) -> Fault:
        """Carries out the next `times` requests only after `seconds` of real time.

        Requests behind them on the same connection wait, too, as for a slow broker.
        """
        return self._add(_api(api), times, client_id, lambda request: _delay(request, seconds))

    def drop(
        self,
        api: Api,
        *,
        times: int = 1,
        carried_out: bool = False,
        client_id: str | None = None,
    ) -> Fault:
        """Ends the connection of the next `times` requests.

        They are not carried out. With `carried_out` they are carried out and only the response is
        lost, so that the client does not know the result.
        """
        act = _drop_answer if carried_out else _drop
        return self._add(_api(api), times, client_id, act)

    def drop_connections(self) -> None:
        """Ends all connections now."""

        def drop() -> None:
            if self._broker.node is not None:
                self._broker.node.server.abort()

        self._broker.on_loop(drop)

    def expire_sessions(self, user: str | None = None) -> None:
        """Ends the sessions of a user, or of all users: the next request on each connection closes
        it, and the client has to log in again. The helper's own sessions go on."""

        def expire() -> None:
            node = self._broker.node
            for connection in tuple(node.server.connections) if node is not None else ():
                name = connection.session.principal.name
                if user == name or (user is None and name not in (ADMIN, ANONYMOUS.name)):
                    connection.allow_fast_path(allowed=False)
                    connection.dispatch = _close_expired

        self._broker.on_loop(expire)

    def rotate_certificate(self) -> None:
        """Gives the broker a new certificate of the same CA, as an operator does. Open connections
        go on; new ones get the new certificate when this returns."""
        node, security = self._broker.node, self._broker.security
        if security is None or node is None or node.tls is None:
            raise TypeError("the broker has no TLS; create it with security='ssl' or 'sasl_ssl'")
        security.files.issue_server()
        asyncio.run_coroutine_threadsafe(node.tls.reload(), node.loop).result(WAIT_S)

    def clear(self) -> None:
        """Removes all pending faults."""
        self._change(self._faults.clear)

    # --- internals ------------------------------------------------------------------------------

    def started(self, node: "Node") -> None:
        """Applies the current faults to a broker that has just started; runs on its loop."""
        self._go_on = None
        self._route(node)

    def _add(
        self,
        api: ApiKey,
        times: int,
        client_id: str | None,
        act: "Callable[[_Request], Sent | _Missed]",
    ) -> Fault:
        if times < 1:
            msg = f"times must be at least 1, not {times}"
            raise ValueError(msg)
        fault = Fault(api, times, client_id, act)
        self._change(lambda: self._faults.append(fault))
        return fault

    def _change(self, change: Callable[[], None]) -> None:
        """Changes the faults on the broker's loop, so that they apply to the very next request."""

        def apply() -> None:
            change()
            if self._broker.node is not None:
                self._route(self._broker.node)

        self._broker.on_loop(apply)

    def _route(self, node: "Node") -> None:
        """Routes requests through `_dispatch` exactly while there are faults."""
        if self._faults and self._go_on is None:
            node.server.allow_fast_paths(allowed=False)
            self._go_on = node.server.dispatch
            _replace_dispatch(
                node, lambda connection, frame: self._dispatch(node, connection, frame)
            )
        elif not self._faults and self._go_on is not None:
            _replace_dispatch(node, self._go_on)
            node.server.allow_fast_paths(allowed=True)
            self._go_on = None

    def _dispatch(self, node: "Node", connection: Connection, frame: memoryview) -> Sent:
        assert self._go_on is not None
        go_on = self._go_on
        header, body_at = read_request_header(frame, 0, len(frame))
        spec = APIS.get(cast("ApiKey", header.request_api_key))
        version = header.request_api_version
        if (
            header.client_id == CLIENT_ID
            or spec is None
            or not spec.min_version <= version <= spec.max_version
        ):
            return go_on(connection, frame)
        for fault in self._faults:
            if fault.api is not spec.key or fault.client_id not in (None, header.client_id):
                continue
            sent = fault.act(
                _Request(
                    node,
                    connection,
                    # The receive buffer is reused before a delayed request is executed.
                    memoryview(bytearray(frame)),
                    go_on,
                    spec,
                    version,
                    header.correlation_id,
                    body_at,
                )
            )
            if not isinstance(sent, _Missed):
                fault.hit()
                if not fault.left:
                    self._faults.remove(fault)
                    self._route(node)
                return sent
        return go_on(connection, frame)


def _close_expired(connection: Connection, frame: memoryview) -> None:
    connection.close("the session was ended by a test")


def _replace_dispatch(node: "Node", dispatch: Dispatch) -> None:
    node.server.replace_dispatch(dispatch)
    if node.authentication is not None:
        node.authentication.replace_dispatch(dispatch)


# --- kinds of faults ----------------------------------------------------------------------------


def _fail(request: _Request, code: ErrorCode) -> Sent | _Missed:
    body = request.read()
    if isinstance(body, ProduceRequest) and body.acks == 0:
        # The client expects no response: as in Kafka, a closed connection is the only sign.
        return _drop(request)
    if isinstance(body, MetadataRequest) and code is not ErrorCode.REBOOTSTRAP_REQUIRED:
        return _fail_metadata(request, body, code)
    if isinstance(body, FetchRequest):
        _name_partitions(request.node, body, request.version)
    answer = error_response(request.spec, body, request.version, code, MESSAGE)
    return _MISSED if answer is None else request.answer(answer)


def _fail_metadata(request: _Request, body: MetadataRequest, code: ErrorCode) -> Sent | _Missed:
    """The response still lists the brokers; each topic gets the error."""
    from headrace.broker.handlers.metadata import handle

    body.allow_auto_topic_creation = False
    answer = handle(request.node, Context(request.connection, request.version, request.frame), body)
    if not isinstance(answer, MetadataResponse) or not answer.topics:
        return _MISSED
    for topic in answer.topics:
        topic.error_code = code
        topic.partitions = []
    return request.answer(answer)


def _name_partitions(node: "Node", body: FetchRequest, version: int) -> None:
    """A request of a fetch session names only the changes. Ends the session and adds all of its
    partitions to the request; the client continues with a full request."""
    session = node.fetch_sessions.find(body.session_id) if body.session_epoch > 0 else None
    if session is None:
        return
    node.fetch_sessions.begin(
        body.session_id, 0, (), (), uses_topic_ids=session.uses_topic_ids, now=0.0
    )
    body.topics = _topics_of(session)


def _topics_of(session: FetchSession) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], list[FetchPartition]] = {}
    for wanted in session.partitions.values():
        one = FetchPartition(partition=wanted.partition)
        topics.setdefault((wanted.topic, wanted.topic_id), []).append(one)
    return [
        FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in topics.items()
    ]


def _delay(request: _Request, seconds: float) -> Sent:
    async def wait() -> Parts | None:
        await asyncio.sleep(seconds)
        return await _carried_out(request)

    return Serial(wait(), _encoded)


def _drop(request: _Request) -> Sent:
    request.connection.close("connection closed by a test's injected fault")
    return None


def _drop_answer(request: _Request) -> Sent:
    async def lose() -> Parts | None:
        await _carried_out(request)
        request.connection.close("response dropped by a test's injected fault")
        return None

    return Serial(lose(), _encoded)


async def _carried_out(request: _Request) -> Parts | None:
    """Executes the request; returns the response that the broker would have sent."""
    sent = request.go_on(request.connection, request.frame)
    if isinstance(sent, Pipelined):
        return sent.encode(await sent.future)
    if isinstance(sent, Serial):
        return sent.encode(await sent.coroutine)
    return sent


def _encoded(parts: object) -> Parts | None:
    return cast("Parts | None", parts)


# --- names --------------------------------------------------------------------------------------


def _api(api: Api) -> ApiKey:
    for key in HANDLERS:
        if api in (key, APIS[key].name, key.name):
            return key
    msg = f"unknown API {api!r}; use a name such as 'Produce' or 'JoinGroup'"
    raise ValueError(msg)


def _code(error: Error) -> ErrorCode:
    try:
        code = ErrorCode[error] if isinstance(error, str) else _CODES[error]
    except KeyError:
        msg = f"unknown error code {error!r}; use a name such as 'NOT_LEADER_OR_FOLLOWER'"
        raise ValueError(msg) from None
    if code is ErrorCode.NONE:
        raise ValueError("NONE is not an error")
    return code
