"""Only a refused connection means a crash: a broker that accepts is alive, a silent one may be."""

import asyncio
import socket

from headrace.broker.membership.process_death_probe import has_crashed
from headrace.client.network.connection import Address


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def never() -> bool:
    return False


def test_a_port_without_a_listener_means_the_process_has_ended() -> None:
    assert asyncio.run(has_crashed(Address("127.0.0.1", free_port()), never))


def test_a_host_with_several_addresses_has_crashed_only_if_all_refuse() -> None:
    assert asyncio.run(has_crashed(Address("localhost", free_port()), never))


def test_a_broker_that_responded_meanwhile_has_not_crashed() -> None:
    assert not asyncio.run(has_crashed(Address("127.0.0.1", free_port()), lambda: True))


def test_a_broker_that_accepts_and_stays_connected_is_alive() -> None:
    async def test() -> bool:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        async with server:
            port: int = server.sockets[0].getsockname()[1]
            return await has_crashed(Address("127.0.0.1", port), never)

    assert not asyncio.run(test())


def test_a_broker_that_accepts_briefly_and_then_refuses_has_crashed() -> None:
    async def test() -> bool:
        accepted = asyncio.Event()

        class HangUp(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                transport.abort()
                accepted.set()
                server.close()

        loop = asyncio.get_running_loop()
        server = await loop.create_server(HangUp, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        crashed = await has_crashed(Address("127.0.0.1", port), never)
        assert accepted.is_set()
        return crashed

    assert asyncio.run(test())


def test_a_broker_that_does_not_respond_is_only_silent() -> None:
    # A full backlog: the kernel drops what comes.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        try:
            assert not asyncio.run(has_crashed(Address("127.0.0.1", port), never))
        finally:
            for filler in fillers:
                filler.close()
