"""Request and response headers."""

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import MalformedMessage
from headrace.protocol.struct import Struct, field
from headrace.protocol.types import Buffer, int16, int32, nullable_string

_MIN_REQUEST_BYTES = 8
"""API key, version and correlation id, which every request starts with."""


class RequestHeader(Struct, versions=(1, 2), flexible_since=2):
    """The header of every request. v2 adds tagged fields; the client id keeps its encoding."""

    request_api_key: int16 = 0
    request_api_version: int16 = 0
    correlation_id: int32 = 0
    client_id: nullable_string = field(default="", ignorable=True, compact=False)


class ResponseHeader(Struct, versions=(0, 1), flexible_since=1):
    """The header of every response. v1 adds tagged fields."""

    correlation_id: int32 = 0


def read_request_header(buf: Buffer, pos: int, end: int) -> tuple[RequestHeader, int]:
    """The header at `pos` and the position of the body after it.

    The header of a known API is readable even if its version is not supported: ApiVersions must be
    answered then too. The header of an unknown API cannot be read, because its layout is unknown.
    """
    if end - pos < _MIN_REQUEST_BYTES:
        raise MalformedMessage(f"a request of {end - pos} bytes is shorter than its header")
    key = int.from_bytes(buf[pos : pos + 2], "big", signed=True)
    spec = APIS.get(key)  # type: ignore[call-overload]
    if spec is None:
        raise MalformedMessage(f"no API has the key {key}")
    version = int.from_bytes(buf[pos + 2 : pos + 4], "big", signed=True)
    return RequestHeader.read(buf, pos, end, spec.request_header_version(version))


def response_header(key: ApiKey, version: int, correlation_id: int) -> bytes:
    """The encoded header for the response to a request of this API and version."""
    header = correlation_id.to_bytes(4, "big", signed=True)
    return header + b"\0" if APIS[key].response_header_version(version) else header
