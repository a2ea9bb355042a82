"""Accepting within limits, by the loop and instead of it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from math import inf

import pytest

from headrace.broker.network.acceptor import Acceptor, listening_sockets
from headrace.process_tuning import loop_factory

DEADLINE_S = 10.0


class Scene:
    """An acceptor, its limits, and what it has accepted."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self.delay_s = 0.0
        self.accepted: list[socket.socket] = []
        self.by_loop = 0
        self.clients: list[socket.socket] = []
        loop = asyncio.get_running_loop()
        self.acceptor = Acceptor(loop, sockets, lambda: self.delay_s, self.accepted.append)

    def protocol(self) -> asyncio.Protocol:
        self.by_loop += 1
        return asyncio.Protocol()

    def connect(self) -> None:
        address = ("127.0.0.1", self.acceptor.port)
        self.clients.append(socket.create_connection(address, timeout=DEADLINE_S))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - callbacks of the loop make it true
                await asyncio.sleep(0.001)

    def close(self) -> None:
        self.acceptor.close()
        for each in (*self.clients, *self.accepted):
            each.close()


@pytest.fixture(params=[asyncio.SelectorEventLoop, loop_factory()], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[Scene], Awaitable[None]]], None]:
    def run_scenario(scenario: Callable[[Scene], Awaitable[None]]) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            scene = Scene(await listening_sockets(loop, "127.0.0.1", 0))
            try:
                await scenario(scene)
            finally:
                scene.close()
                await asyncio.sleep(0)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main())

    return run_scenario


Run = Callable[[Callable[[Scene], Awaitable[None]]], None]


def test_a_connection_waits_until_the_limits_allow_it(run: Run) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.acceptor.start(10)
        scene.delay_s = inf
        scene.connect()
        scene.connect()
        await asyncio.sleep(0.01)
        assert not scene.accepted
        scene.delay_s = 0.0
        scene.acceptor.retry()
        await scene.until(lambda: len(scene.accepted) == 2)

    run(scenario)


def test_a_connection_over_a_rate_is_accepted_later_without_a_retry(run: Run) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.acceptor.start(10)
        scene.delay_s = 0.01
        scene.connect()
        await asyncio.sleep(0.005)
        scene.delay_s = 0.0
        await scene.until(lambda: len(scene.accepted) == 1)

    run(scenario)


def test_the_acceptor_takes_over_from_the_loop_and_loses_no_connection(run: Run) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.acceptor.start(10, scene.protocol)
        scene.connect()
        await scene.until(lambda: len(scene.accepted) + scene.by_loop == 1)
        scene.connect()  # in the system's queue
        scene.acceptor.take_over()
        scene.connect()
        await scene.until(lambda: len(scene.accepted) + scene.by_loop == 3)
        scene.connect()
        await scene.until(lambda: len(scene.accepted) + scene.by_loop == 4)
        assert scene.accepted

    run(scenario)


def test_a_closed_acceptor_refuses(run: Run) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.acceptor.start(10)
        port = scene.acceptor.port
        scene.acceptor.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))

    run(scenario)


def test_all_addresses_of_a_host_have_one_port() -> None:
    async def ports() -> set[int]:
        sockets = await listening_sockets(asyncio.get_running_loop(), None, 0)
        found = {each.getsockname()[1] for each in sockets}
        for each in sockets:
            each.close()
        return found

    assert len(asyncio.run(ports())) == 1
