"""A whole simulation: hosts, processes, the network and time, all from one seed.

    with Simulation(seed=7) as simulation:
        broker = simulation.process("broker-1", main)
        broker.start()
        simulation.run(60)
        broker.kill()

The same seed gives the same run, event by event (`trace.digest` tells), if the interpreter was
started with `PYTHONHASHSEED=0`: sets of strings have an order of their own otherwise.
"""

import gc
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace.testing.simulation.network import Network
from headrace.testing.simulation.process import Incarnation, Main, SimulatedHost, SimulatedProcess
from headrace.testing.simulation.schedule import Schedule
from headrace.testing.simulation.trace import Trace

T = TypeVar("T")


class SimulationError(AssertionError):
    """A condition did not become true in the given time."""


class Simulation:
    """One run. Use it with `with`: the garbage collector is off inside, and the end cleans up."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.schedule = Schedule(seed)
        self.network = Network(self.schedule)
        self.hosts: dict[str, SimulatedHost] = {}
        self.processes: dict[str, SimulatedProcess] = {}
        self.errors: list[str] = []

    @property
    def now_s(self) -> float:
        """The virtual time in seconds."""
        return self.schedule.now_s

    @property
    def trace(self) -> Trace:
        """The digest and the last events of the run."""
        return self.schedule.trace

    def host(self, name: str) -> SimulatedHost:
        """The host with this name; the first call creates it."""
        if name not in self.hosts:
            self.hosts[name] = SimulatedHost(self.schedule, name)
        return self.hosts[name]

    def process(self, name: str, main: Main, *, host: str | None = None) -> SimulatedProcess:
        """A program that is not started yet, by default on its own host."""
        process = SimulatedProcess(self.schedule, self.network, self.host(host or name), name, main)
        process.on_error = lambda message, error: self.errors.append(
            f"{self.now_s:.6f} {name}: {message}: {error!r}"
        )
        self.processes[name] = process
        return process

    def run(self, seconds: float) -> None:
        """Lets this much virtual time pass."""
        self.schedule.run(self.now_s + seconds)

    def run_until(self, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Lets time pass until `done` is true; raises `SimulationError` after the limit."""
        if not self.schedule.run(self.now_s + timeout_s, done):
            raise SimulationError(f"not within {timeout_s:g} s: {what}")

    def do(
        self, life: Incarnation, call: Callable[[], Coroutine[Any, Any, T]], timeout_s: float = 60.0
    ) -> T:
        """Runs a coroutine in a process and returns its result; everything else continues."""
        task = life.run(call())
        what = getattr(task.get_coro(), "__qualname__", "what it was asked to")
        self.run_until(task.done, timeout_s, f"{life.name} finished {what}")
        return task.result()

    def __enter__(self) -> Self:
        self._collects = gc.isenabled()
        gc.disable()  # when it runs depends on more than the seed
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self.processes.values():
            process.bury()
        if self._collects:
            gc.enable()
        gc.collect()
