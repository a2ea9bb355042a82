"""One blocking connection to one broker, for requests that client libraries do not offer."""

import socket
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from headrace.protocol.api import APIS, ApiSpec
from headrace.protocol.header import RequestHeader, ResponseHeader
from headrace.protocol.struct import Struct

Wrap = Callable[[socket.socket], socket.socket]
R = TypeVar("R", bound=Struct)
TIMEOUT_S = 10.0
CLIENT_ID = "headrace-bench"


class WireError(OSError):
    """The broker closed the connection."""


class Wire:
    def __init__(
        self, address: str, *, timeout_s: float = TIMEOUT_S, wrap: Wrap | None = None
    ) -> None:
        """`wrap` makes the socket a TLS one."""
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain if wrap is None else wrap(plain)
        self._sent = 0

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
        self._socket.close()

    def send(self, request: Struct, version: int) -> None:
        spec = _spec_of(request)
        self._sent += 1
        header = RequestHeader(
            request_api_key=spec.key,
            request_api_version=version,
            correlation_id=self._sent,
            client_id=CLIENT_ID,
        )
        body = header.encode(spec.request_header_version(version)) + request.encode(version)
        self._socket.sendall(struct.pack(">i", len(body)) + body)

    def receive(self, answer: type[R], version: int) -> R:
        """The next response; requests are answered in order."""
        (size,) = struct.unpack(">i", self._take(4))
        body = self._take(size)
        spec = next(spec for spec in APIS.values() if spec.response is answer)
        _, start = ResponseHeader.read(body, 0, size, spec.response_header_version(version))
        return answer.decode(body[start:], version)

    def call(self, request: Struct, answer: type[R], version: int) -> R:
        self.send(request, version)
        return self.receive(answer, version)

    def _take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            part = self._socket.recv(size - len(taken))
            if not part:
                raise WireError("the broker closed the connection")
            taken += part
        return bytes(taken)


def _spec_of(request: Struct) -> ApiSpec:
    name = type(request).__name__.removesuffix("Request")
    return next(spec for spec in APIS.values() if spec.name == name)
