"""Simulated processes, networks and disks behave like real ones; the seed determines the run."""

import asyncio
import os
import subprocess
import sys

import pytest

from headrace.client.admin.topics import NewTopic, create_topics
from headrace.testing.simulation.brokers import BrokerProcess, idle
from headrace.testing.simulation.checks.history import History, Place, Violation
from headrace.testing.simulation.clients.workload import Producer, Reader, client_of
from headrace.testing.simulation.process import Incarnation, SimulatedProcess
from headrace.testing.simulation.simulation import Simulation, SimulationError

FLUSHED = {"flush.messages": "1"}


class Echo(asyncio.Protocol):
    """Sends back the received bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


class Ear(asyncio.Protocol):
    """Records the received bytes and the end of the connection."""

    def __init__(self) -> None:
        self.heard = b""
        self.lost: list[Exception | None] = []

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


async def echo(_life: Incarnation) -> None:
    await asyncio.get_running_loop().create_server(Echo, "server", 7)
    await asyncio.get_running_loop().create_future()


def pair(
    simulation: Simulation,
) -> tuple[SimulatedProcess, SimulatedProcess, asyncio.Transport, Ear]:
    """A server, a client and an open connection between them."""
    server = simulation.process("server", echo)
    server.start()
    client = simulation.process("client", idle)
    life = client.start()
    simulation.run(0.1)

    async def connect() -> tuple[asyncio.Transport, Ear]:
        return await asyncio.get_running_loop().create_connection(Ear, "server", 7)

    transport, ear = simulation.do(life, connect)
    return server, client, transport, ear


def test_time_passes_without_waiting_and_timers_fire_in_order() -> None:
    seen = []

    async def main(_life: Incarnation) -> None:
        for delay_s in (3600.0, 1.0, 60.0):
            asyncio.get_running_loop().call_later(delay_s, seen.append, delay_s)
        await asyncio.sleep(7200)

    with Simulation(1) as simulation:
        process = simulation.process("one", main)
        process.start()
        simulation.run_until(lambda: not process.running, 7300, "it ends")
        assert seen == [1.0, 60.0, 3600.0]
        assert 7200 <= simulation.now_s < 7201


def test_a_killed_process_runs_no_more_code() -> None:
    cleaned = []

    async def main(_life: Incarnation) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            cleaned.append(True)

    with Simulation(1) as simulation:
        process = simulation.process("one", main)
        process.start()
        simulation.run(5)
        process.kill()
        simulation.run(20)
        assert not cleaned


def test_a_paused_process_resumes_with_late_timers() -> None:
    woken = []

    async def main(_life: Incarnation) -> None:
        await asyncio.sleep(1)
        woken.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)

    with Simulation(1) as simulation:
        process = simulation.process("one", main)
        process.start()
        simulation.run(0.5)
        process.pause()
        simulation.run(29.5)
        assert not woken
        process.resume()
        simulation.run(0.1)
        assert 30 <= woken[0] < 30.1


def test_bytes_arrive_in_order_and_after_a_partition_heals() -> None:
    with Simulation(3) as simulation:
        _, _, transport, ear = pair(simulation)
        simulation.network.cut("server", "client")
        for number in range(100):
            transport.write(b"%d," % number)
        simulation.run(10)
        assert ear.heard == b""
        assert not ear.lost
        simulation.network.heal("server", "client")
        simulation.run(1)
        assert ear.heard == b"".join(b"%d," % number for number in range(100))


@pytest.mark.parametrize("seed", range(4))
def test_a_dead_process_closes_its_connections_and_refuses_new_ones(seed: int) -> None:
    with Simulation(seed) as simulation:
        server, client, _, ear = pair(simulation)
        server.kill()
        simulation.run(1)
        assert len(ear.lost) == 1
        assert client.incarnation is not None

        async def connect() -> None:
            await asyncio.get_running_loop().create_connection(Ear, "server", 7)

        with pytest.raises(ConnectionRefusedError):
            simulation.do(client.incarnation, connect)


def test_a_host_without_power_is_silent_and_later_resets_old_connections() -> None:
    with Simulation(1) as simulation:
        server, client, transport, ear = pair(simulation)
        server.lose_power()
        transport.write(b"hello")
        simulation.run(10)
        assert not ear.lost
        assert client.incarnation is not None

        async def connect() -> None:
            await asyncio.get_running_loop().create_connection(Ear, "server", 7)

        with pytest.raises(SimulationError):
            simulation.do(client.incarnation, connect, timeout_s=10)
        server.start()
        transport.write(b"still there?")
        simulation.run(1)
        assert isinstance(ear.lost[0], ConnectionResetError)


def run_single(seed: int, seconds: float = 30.0, *, flush: bool = True) -> tuple[str, History]:
    """A broker under load that repeatedly loses power."""
    with Simulation(seed) as simulation:
        history = History()
        broker = BrokerProcess(simulation, 1, {"log.roll.jitter.ms": "0"})
        broker.process.start()
        life = simulation.process("client", idle).start()
        simulation.run_until(lambda: broker.node is not None, 10, "the broker serves")
        client = client_of(life, broker.address, "test")
        topic = NewTopic("t", 2, 1, FLUSHED if flush else {})
        simulation.do(life, lambda: create_topics(client, [topic], timeout_s=10))
        places = [Place("t", partition) for partition in range(2)]
        producers = [
            Producer(client, history, place, f"p{place}", mean_pause_s=0.1, chance=life.random)
            for place in places
        ]
        readers = [Reader(client, history, place, life.random) for place in places]
        tasks = [life.run(each.run()) for each in (*producers, *readers)]
        chance = simulation.schedule.random_of("trouble")
        while simulation.now_s < seconds:
            simulation.run(chance.random() * 8)
            broker.process.lose_power()
            simulation.run(chance.random() * 2)
            broker.process.start()
        for each in (*producers, *readers):
            each.stopping = True
        done = lambda: all(task.done() for task in tasks)  # noqa: E731
        simulation.run_until(done, 60, "the clients end")
        for place in places:
            log = simulation.do(life, Reader(client, None, place, life.random).read_all)
            history.check(place, log)
        assert not simulation.errors
        return simulation.trace.digest, history


@pytest.mark.slow
def test_flushed_records_survive_every_power_loss() -> None:
    for seed in range(3):
        _, history = run_single(seed)
        assert history.acknowledged > 50


def test_the_simulator_detects_loss_without_the_flush() -> None:
    with pytest.raises(Violation):
        for seed in range(10):
            run_single(seed, flush=False)


@pytest.mark.slow
def test_a_seed_determines_the_whole_run() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from test_simulation import run_single; print(run_single(7)[0], run_single(8)[0])"
    )
    here = os.path.dirname(__file__)
    runs = [
        subprocess.run(
            [sys.executable, "-c", code, here],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.split()
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]
