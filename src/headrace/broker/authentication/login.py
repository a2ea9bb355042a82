"""One login on a connection: which requests are served before the client is authenticated.

The states and what each of them accepts:

    HANDSHAKE ----SaslHandshake----> TOKENS ----last token----> (authenticated)
        |                              |
        +---- anything else -----------+---- a failed token, anything else ----> FAILED

* HANDSHAKE accepts one ApiVersions and one SaslHandshake. An ApiVersions with an unsupported
  version or an invalid client name gets its error and does not count: the client can try again.
* TOKENS accepts the tokens of the mechanism: in SaslAuthenticate requests, or after a handshake of
  version 0 as they are, each after its size.
* FAILED accepts nothing. The connection closes after `connection.failed.authentication.delay.ms`,
  which slows down guessing, and the client gets its response only then.

The body of any other request is never parsed. A second login on the same connection (KIP-368) has
the same states without ApiVersions, and must end with the same mechanism and principal.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple, Protocol

from headrace.broker.network.connection import Connection, Dispatch, Parts, Pipelined, Serial
from headrace.broker.network.dispatch import UnsupportedRequest, encode
from headrace.protocol.api import APIS, ApiKey, ApiSpec
from headrace.protocol.error_responses import error_response
from headrace.protocol.errors import ErrorCode, ProtocolError
from headrace.protocol.header import RequestHeader, read_request_header
from headrace.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headrace.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from headrace.protocol.struct import Struct
from headrace.security.principal import Principal, user
from headrace.security.sasl.exchange import (
    Challenge,
    Exchange,
    Failure,
    Success,
    UnknownKey,
    invalid_credentials_text,
)
from headrace.security.session import Session

FIRST_FRAMED_HANDSHAKE: Final = 1
"""After a handshake of this version, tokens come in SaslAuthenticate requests."""
_SHOWN_MECHANISM_CHARS: Final = 64
_SHOWN_USER_CHARS: Final = 256
_RESPONSE_ERROR: Final = slice(
    8, 10
)  # of a framed ApiVersions response: size, correlation id, code
_SIZE_BYTES: Final = 4

Reply = Parts | Pipelined | Serial | None


class LoginState(Enum):
    """The states of the module's docstring."""

    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    FAILED = "failed"


class Identity(NamedTuple):
    """Whom a session belongs to and how it was proved: a second login may not change it."""

    principal: Principal
    mechanism: str


class LoginHost(Protocol):
    """What a login needs from its listener."""

    mechanisms: tuple[str, ...]
    failure_delay_s: float

    def exchange(self, mechanism: str) -> Exchange:
        """A new exchange of one of the mechanisms."""
        ...

    def is_current(self, mechanism: str, success: Success) -> bool:
        """Whether the credential that the client proved to know is still the stored one."""
        ...

    async def find_key(self, key_id: str) -> None:
        """Fetches the keys that sign tokens, unless that was done a moment ago."""
        ...

    def log_login(self, session: Session, mechanism: str, *, error: str | None = None) -> None:
        """Writes the end of a login to the audit log."""
        ...


class Login:
    """Serves a connection until its client is authenticated, or fails."""

    def __init__(
        self,
        host: LoginHost,
        serve_api_versions: Dispatch,
        authenticated: Callable[[Connection, Success, str], int],
        previous: Identity | None = None,
    ) -> None:
        """`authenticated` begins the session and returns its lifetime in ms, 0 for no limit.
        `previous` is set for a second login."""
        self._host = host
        self._serve_api_versions = serve_api_versions
        self._authenticated = authenticated
        self._previous = previous
        self._state = LoginState.HANDSHAKE
        self._knows_versions = previous is not None
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._tokens_are_framed = True

    def dispatch(self, connection: Connection, frame: memoryview) -> Reply:
        """Serves one frame; raises ProtocolError if the connection must close at once."""
        data = bytes(frame)
        if self._state is LoginState.HANDSHAKE:
            return self._serve_handshake_request(connection, data)
        if self._state is LoginState.TOKENS:
            if not self._tokens_are_framed:
                return self._serve_raw_token(connection, data)
            return self._serve_authenticate(connection, data)
        raise UnsupportedRequest("a request after a failed authentication")

    # --- the handshake --------------------------------------------------------------------------

    def _serve_handshake_request(self, connection: Connection, data: bytes) -> Reply:
        header, pos = read_request_header(data, 0, len(data))
        if header.request_api_key == ApiKey.API_VERSIONS and not self._knows_versions:
            reply = self._serve_api_versions(connection, memoryview(data))
            self._knows_versions = _is_served(reply)
            return reply
        if header.request_api_key != ApiKey.SASL_HANDSHAKE:
            key = ApiKey(header.request_api_key).name
            return self._refuse(connection, f"{key} before authentication", None)
        request = _read(APIS[ApiKey.SASL_HANDSHAKE], header, data, pos)
        assert isinstance(request, SaslHandshakeRequest)
        return self._serve_handshake(connection, header, request)

    def _serve_handshake(
        self, connection: Connection, header: RequestHeader, request: SaslHandshakeRequest
    ) -> Reply:
        offered = list(self._host.mechanisms)
        if request.mechanism not in offered:
            shown = request.mechanism[:_SHOWN_MECHANISM_CHARS]
            answer = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered
            )
            return self._refuse(
                connection, f"mechanism {shown!r} is not enabled", _framed(header, answer)
            )
        self._mechanism = request.mechanism
        self._tokens_are_framed = header.request_api_version >= FIRST_FRAMED_HANDSHAKE
        self._exchange = self._host.exchange(self._mechanism)
        self._state = LoginState.TOKENS
        return _framed(header, SaslHandshakeResponse(mechanisms=offered))

    # --- tokens ---------------------------------------------------------------------------------

    def _serve_authenticate(self, connection: Connection, data: bytes) -> Reply:
        header, pos = read_request_header(data, 0, len(data))
        spec = APIS[ApiKey(header.request_api_key)]
        if spec.key is not ApiKey.SASL_AUTHENTICATE:
            reason = f"{spec.key.name} during authentication"
            return self._refuse(connection, reason, _illegal_state(spec, header))
        request = _read(spec, header, data, pos)
        assert isinstance(request, SaslAuthenticateRequest)

        def answer(outcome: Challenge | Success, lifetime_ms: int) -> Parts:
            return _framed(
                header,
                SaslAuthenticateResponse(auth_bytes=outcome.token, session_lifetime_ms=lifetime_ms),
            )

        def refusal(text: str) -> Parts:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return _framed(header, SaslAuthenticateResponse(error_code=code, error_message=text))

        return self._respond(connection, bytes(request.auth_bytes), answer, refusal)

    def _serve_raw_token(self, connection: Connection, token: bytes) -> Reply:
        def answer(outcome: Challenge | Success, _: int) -> Parts:
            return [len(outcome.token).to_bytes(_SIZE_BYTES, "big") + outcome.token]

        return self._respond(connection, token, answer, lambda _: None)

    def _respond(
        self,
        connection: Connection,
        token: bytes,
        answer: Callable[[Challenge | Success, int], Parts],
        refusal: Callable[[str], Parts | None],
    ) -> Reply:
        exchange = self._exchange
        assert exchange is not None  # the state is TOKENS
        outcome = exchange.respond(token)
        if not isinstance(outcome, UnknownKey):
            return self._finish(connection, outcome, answer, refusal)
        key_id = outcome.key_id

        async def with_new_keys() -> object:
            await self._host.find_key(key_id)
            outcome = exchange.respond(token)
            if isinstance(outcome, UnknownKey):
                outcome = Failure("the token is signed with an unknown key")
            reply = self._finish(connection, outcome, answer, refusal)
            return await reply.coroutine if isinstance(reply, Serial) else reply

        return Serial(with_new_keys(), lambda parts: self._encode(connection, parts))

    def _finish(
        self,
        connection: Connection,
        outcome: Challenge | Success | Failure,
        answer: Callable[[Challenge | Success, int], Parts],
        refusal: Callable[[str], Parts | None],
    ) -> "Parts | Serial":
        if isinstance(outcome, Challenge):
            return answer(outcome, 0)
        checked = self._checked(outcome)
        if isinstance(checked, Failure):
            text = checked.client_text or invalid_credentials_text(
                self._mechanism, reauthentication=self._previous is not None
            )
            claimed = checked.claimed_user
            return self._refuse(connection, checked.reason, refusal(text), claimed)
        lifetime_ms = self._authenticated(connection, checked, self._mechanism)
        self._host.log_login(connection.session, self._mechanism)
        return answer(checked, lifetime_ms)

    def _checked(self, outcome: Success | Failure) -> Success | Failure:
        """A failure if the credential has changed meanwhile, or a second login changes the user."""
        if isinstance(outcome, Failure):
            return outcome
        if not self._host.is_current(self._mechanism, outcome):
            return Failure(f"the credential of {outcome.principal} has changed meanwhile")
        previous = self._previous
        if previous is None:
            return outcome
        if previous.mechanism != self._mechanism:
            text = (
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{previous.mechanism}'"
            )
            return Failure(text, text)
        if previous.principal != outcome.principal:
            before, after = previous.principal, outcome.principal
            text = (
                f"Cannot change principals during re-authentication from "
                f"{before.type}.{before.name}: {after.type}.{after.name}"
            )
            return Failure(text, text)
        return outcome

    # --- failures -------------------------------------------------------------------------------

    def _refuse(
        self, connection: Connection, reason: str, response: Parts | None, claimed_user: str = ""
    ) -> Serial:
        """Sends the response after the delay, and closes the connection."""
        self._state = LoginState.FAILED
        session = connection.session
        if claimed_user:
            session = replace(session, principal=user(claimed_user[:_SHOWN_USER_CHARS]))
        self._host.log_login(session, self._mechanism or "-", error=reason)

        async def delayed() -> object:
            await asyncio.sleep(self._host.failure_delay_s)
            return response

        return Serial(delayed(), lambda parts: self._encode(connection, parts))

    def _encode(self, connection: Connection, parts: object) -> Parts | None:
        if self._state is LoginState.FAILED:
            connection.drain()  # closes once the response is sent
        assert parts is None or isinstance(parts, list)
        return parts


def _read(spec: ApiSpec, header: RequestHeader, data: bytes, pos: int) -> Struct:
    version = header.request_api_version
    if not spec.min_version <= version <= spec.max_version:
        raise UnsupportedRequest(f"{spec.name} version {version} during authentication")
    request, _ = spec.request.read(data, pos, len(data), version)
    return request


def _framed(header: RequestHeader, answer: Struct) -> Parts:
    spec = APIS[ApiKey(header.request_api_key)]
    return encode(spec, header.request_api_version, header.correlation_id, answer)


def _illegal_state(spec: ApiSpec, header: RequestHeader) -> Parts | None:
    """ILLEGAL_SASL_STATE as the response to a request whose body was not parsed; None if a response
    of this version cannot say it."""
    version = header.request_api_version
    if not spec.min_version <= version <= spec.max_version:
        return None
    try:
        answer = error_response(spec, spec.request(), version, ErrorCode.ILLEGAL_SASL_STATE)
        return None if answer is None else _framed(header, answer)
    except ProtocolError:
        return None


def _is_served(reply: Reply) -> bool:
    """Whether an ApiVersions was answered without an error."""
    return isinstance(reply, list) and bytes(reply[0][_RESPONSE_ERROR]) == b"\0\0"
