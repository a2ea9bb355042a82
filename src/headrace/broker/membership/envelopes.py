"""Envelopes: a client's request on its way to the active controller, with the client's identity.

The controller authorizes the request again, as the client. Kafka's format (KIP-590).
"""

from ipaddress import ip_address
from typing import Final, NamedTuple

from headrace.broker.network.api_handlers import FORWARDED
from headrace.broker.network.dispatch import Context
from headrace.protocol.api import APIS, ApiKey, ApiSpec
from headrace.protocol.errors import ErrorCode, ProtocolError
from headrace.protocol.header import (
    RequestHeader,
    ResponseHeader,
    read_request_header,
    response_header,
)
from headrace.protocol.messages.envelope import (
    DefaultPrincipalData,
    EnvelopeRequest,
    EnvelopeResponse,
)
from headrace.protocol.struct import Struct
from headrace.security.principal import Principal
from headrace.security.session import Session

_PRINCIPAL_VERSION: Final = 0
_VERSION_BYTES: Final = 2


class InvalidEnvelope(Exception):
    """An envelope or a request in it that cannot be read."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Forwarded(NamedTuple):
    """A request out of an envelope; the context acts for the client."""

    spec: ApiSpec
    context: Context
    request: Struct


def wrap_request(
    spec: ApiSpec, request: Struct, version: int, client_id: str, session: Session
) -> EnvelopeRequest:
    """The envelope of a client's request."""
    header = RequestHeader(
        request_api_key=spec.key,
        request_api_version=version,
        correlation_id=0,
        client_id=client_id,
    )
    data = header.encode(spec.request_header_version(version)) + request.encode(version)
    return EnvelopeRequest(
        request_data=data,
        request_principal=_encode_principal(session),
        client_host_address=_packed(session.host),
    )


def unwrap_request(envelope: EnvelopeRequest) -> Forwarded:
    """The request in an envelope; raises InvalidEnvelope."""
    data = envelope.request_data
    session = _client(envelope)
    try:
        header, pos = read_request_header(data, 0, len(data))
        spec = APIS[ApiKey(header.request_api_key)]
        version = header.request_api_version
        if not spec.serves(version):
            raise InvalidEnvelope(
                ErrorCode.UNSUPPORTED_VERSION, f"{spec.name} version {version} is not served"
            )
        request, _ = spec.request.read(data, pos, len(data), version)
    except (ProtocolError, ValueError, KeyError) as error:
        raise InvalidEnvelope(ErrorCode.UNSUPPORTED_VERSION, str(error)) from None
    if spec.key not in FORWARDED:
        raise InvalidEnvelope(
            ErrorCode.INVALID_REQUEST, f"{spec.name} is not decided by the controller"
        )
    return Forwarded(spec, Context(None, version, data, session), request)


def wrap_response(forwarded: Forwarded, answer: Struct) -> EnvelopeResponse:
    spec, version = forwarded.spec, forwarded.context.version
    data = response_header(spec.key, version, 0) + answer.encode(version)
    return EnvelopeResponse(response_data=data)


def unwrap_response(spec: ApiSpec, version: int, data: bytes) -> Struct:
    """The response in an envelope; raises ProtocolError."""
    header_version = spec.response_header_version(version)
    _, pos = ResponseHeader.read(data, 0, len(data), header_version)
    response, _ = spec.response.read(data, pos, len(data), version)
    return response


def _client(envelope: EnvelopeRequest) -> Session:
    try:
        host = str(ip_address(envelope.client_host_address))
    except ValueError:
        raise InvalidEnvelope(
            ErrorCode.INVALID_REQUEST, "the client's address is not an IP address"
        ) from None
    data = _decode_principal(envelope.request_principal)
    return Session(
        Principal(data.type, data.name, data.token_authenticated),
        host,
        data.listener,
        data.security_protocol,
        data.token_id or None,
    )


def _encode_principal(session: Session) -> bytes:
    principal = session.principal
    data = DefaultPrincipalData(
        type=principal.type,
        name=principal.name,
        token_authenticated=principal.token_authenticated,
        listener=session.listener,
        security_protocol=session.security_protocol,
        token_id=session.token_id or "",
    )
    version = _PRINCIPAL_VERSION.to_bytes(_VERSION_BYTES, "big")
    return version + data.encode(_PRINCIPAL_VERSION)


def _decode_principal(data: bytes | None) -> DefaultPrincipalData:
    try:
        if data is None:
            raise ValueError("it is null")
        version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
        if version != _PRINCIPAL_VERSION:
            raise ValueError(f"version {version} of a principal is unknown")
        return DefaultPrincipalData.decode(data[_VERSION_BYTES:], version)
    except (ProtocolError, ValueError) as error:
        raise InvalidEnvelope(
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, f"the principal cannot be read: {error}"
        ) from None


def _packed(host: str) -> bytes:
    """The address in 4 or 16 bytes; a link-local address loses its zone."""
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return ip_address("0.0.0.0").packed  # noqa: S104  # an unknown address
