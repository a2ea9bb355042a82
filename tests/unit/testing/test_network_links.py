"""Connections between the brokers of a test's cluster carry bytes to either kind of protocol."""

import asyncio
from collections.abc import Callable

import pytest

from headrace.testing.network_links import NetworkLinks

HERE, THERE = 1, 2
TIMEOUT_S = 10.0
SAID = b"said"


class Plain(asyncio.Protocol):
    def __init__(self) -> None:
        self.heard = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        self.heard.set_result(data)


class Buffered(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.heard = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        self._room = bytearray(len(SAID))

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.heard.set_result(bytes(self._room[:nbytes]))


async def hear(links: NetworkLinks, factory: "Callable[[], Plain | Buffered]") -> bytes:
    async def speak(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SAID)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        links.place(THERE, port)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(TIMEOUT_S):
            _, protocol = await loop.create_connection(factory, "127.0.0.1", port)
            heard: bytes = await protocol.heard
            await protocol.ended.wait()
            return heard


@pytest.mark.parametrize("factory", [Plain, Buffered])
def test_both_kinds_of_protocol_receive_the_sent_bytes(
    factory: "Callable[[], Plain | Buffered]",
) -> None:
    # The probe for crashed brokers has a plain protocol, the client a buffered one.
    links = NetworkLinks()
    with asyncio.Runner(loop_factory=links.loops(HERE)) as runner:
        assert runner.run(hear(links, factory)) == SAID
