"""A proxy between producers and any Kafka that fails Produce requests on demand.

It replaces the addresses in the broker's responses by its own, so that clients connect to it again.
"""

import contextlib
import itertools
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.header import ResponseHeader, read_request_header
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from support.wire.connection import Wire, address_of, frame

LOOPBACK = "127.0.0.1"
JOIN_S = 10.0
CORRELATION_ID_AT = 4  # in a request; a response starts with it


class Link:
    """Forwards all requests, except for the Produce requests that a test wants to fail."""

    def __init__(self, bootstrap: str) -> None:
        self.produced_at: list[float] = []
        """The arrival time of each Produce request, by the monotonic clock."""
        self._to = address_of(bootstrap)
        with Wire(bootstrap) as wire:
            (node,) = wire.call(MetadataRequest(topics=[]), MetadataResponse).brokers
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._told = node.host.encode() + struct.pack(">i", node.port)
        self._tell = node.host.encode() + struct.pack(">i", self.port)
        self._lock = threading.Lock()
        self._refuse: list[ErrorCode] = []
        self._lose = 0
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def bootstrap_servers(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def refuse(self, *codes: ErrorCode) -> None:
        """The next Produce requests get these error codes and do not reach the broker."""
        with self._lock:
            self._refuse.extend(codes)

    def lose_answers(self, count: int) -> None:
        """The broker handles the next Produce requests, but their responses are lost."""
        with self._lock:
            self._lose += count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one in self._sockets:
            _end(one)
        for thread in self._threads:
            thread.join(JOIN_S)

    # --- forwarding -----------------------------------------------------------------------------

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._to)
                for one in (client, broker):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, broker]
                lost: set[int] = set()
                self._start(self._forward_requests, client, broker, lost)
                self._start(self._forward_answers, client, broker, lost)

    def _forward_requests(
        self, client: socket.socket, broker: socket.socket, lost: set[int]
    ) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                request = _receive(client)
                answer = None
                if int.from_bytes(request[:2], "big") == ApiKey.PRODUCE:
                    answer = self._fail(request, lost)
                if answer is None:
                    broker.sendall(frame(request))
                else:
                    client.sendall(frame(answer))
        _end(client)
        _end(broker)

    def _forward_answers(
        self, client: socket.socket, broker: socket.socket, lost: set[int]
    ) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                answer = _receive(broker)
                if int.from_bytes(answer[:4], "big") in lost:
                    break
                client.sendall(frame(answer.replace(self._told, self._tell)))
        _end(client)
        _end(broker)

    def _fail(self, request: bytes, lost: set[int]) -> bytes | None:
        """Decides about a Produce request: returns a response, or None to forward it."""
        with self._lock:
            self.produced_at.append(time.monotonic())
            if self._refuse:
                return _refusal(request, self._refuse.pop(0))
            if self._lose:
                self._lose -= 1
                lost.add(int.from_bytes(request[CORRELATION_ID_AT : CORRELATION_ID_AT + 4], "big"))
        return None

    @property
    def pauses_s(self) -> list[float]:
        """The time between one Produce request and the next."""
        return [later - sooner for sooner, later in itertools.pairwise(self.produced_at)]


def _refusal(body: bytes, code: ErrorCode) -> bytes:
    header, at = read_request_header(body, 0, len(body))
    version = header.request_api_version
    request = ProduceRequest.decode(body[at:], version)
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=one.index, error_code=code, base_offset=-1)
                    for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
    header_version = APIS[ApiKey.PRODUCE].response_header_version(version)
    answered = ResponseHeader(correlation_id=header.correlation_id)
    return answered.encode(header_version) + response.encode(version)


def _receive(source: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(source, 4))
    return _exactly(source, size)


def _exactly(source: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        got = source.recv(size - len(parts))
        if not got:
            raise EOFError
        parts += got
    return bytes(parts)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
