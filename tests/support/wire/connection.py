"""A client that sends exactly the given bytes: one blocking socket, no retries, no negotiation."""

import socket
import struct
from types import TracebackType
from typing import Self, TypeVar

from headrace.protocol.api import APIS, ApiSpec
from headrace.protocol.header import RequestHeader, ResponseHeader
from headrace.protocol.struct import Struct

TIMEOUT_S = 10.0
CLIENT_ID = "tests"

R = TypeVar("R", bound=Struct)


class ConnectionEnded(Exception):
    """The broker closed the connection."""


def address_of(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    return host, int(port)


def spec_of(request: Struct) -> ApiSpec:
    name = type(request).__name__.removesuffix("Request")
    return next(spec for spec in APIS.values() if spec.name == name)


def frame(body: bytes) -> bytes:
    """The body with its size before it."""
    return struct.pack(">i", len(body)) + body


def request_frame(
    request: Struct, version: int, *, correlation_id: int = 1, client_id: str | None = CLIENT_ID
) -> bytes:
    """A whole request frame in its wire format."""
    spec = spec_of(request)
    header = RequestHeader(
        request_api_key=spec.key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return frame(header.encode(spec.request_header_version(version)) + request.encode(version))


class Wire:
    """One connection to a broker."""

    def __init__(self, bootstrap: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection(address_of(bootstrap), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, request: Struct, version: int) -> int:
        """Sends a request and returns its correlation id."""
        self._correlation_id += 1
        self.send_bytes(request_frame(request, version, correlation_id=self._correlation_id))
        return self._correlation_id

    def receive_frame(self) -> bytes:
        """The next frame without its size; raises ConnectionEnded at the end of the stream."""
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def receive(self, spec: ApiSpec, version: int) -> tuple[int, Struct]:
        """The next response: its correlation id and the message, which must fill the frame."""
        body = self.receive_frame()
        header_version = spec.response_header_version(version)
        header, pos = ResponseHeader.read(body, 0, len(body), header_version)
        return header.correlation_id, spec.response.decode(body[pos:], version)

    def ask(self, request: Struct, version: int | None = None) -> Struct:
        """The response to a request, in the newest version by default."""
        spec = spec_of(request)
        version = spec.max_version if version is None else version
        sent = self.send(request, version)
        correlation_id, response = self.receive(spec, version)
        assert correlation_id == sent
        return response

    def call(self, request: Struct, answer: type[R], version: int | None = None) -> R:
        """Like `ask`, for callers that give the class of the response."""
        response = self.ask(request, version)
        assert isinstance(response, answer)
        return response

    def ends(self) -> bool:
        """Waits for the broker to close; false if the broker sends data instead."""
        try:
            return self.socket.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            return True

    def _receive(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                got = self.socket.recv(size - len(parts))
            except (ConnectionResetError, BrokenPipeError) as error:
                raise ConnectionEnded(str(error)) from None
            if not got:
                raise ConnectionEnded(f"after {len(parts)} of {size} bytes")
            parts += got
        return bytes(parts)
