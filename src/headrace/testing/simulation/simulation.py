"""A whole simulation: hosts, processes, the network and time, all from one seed.

    with Simulation(seed=7) as simulation:
        broker = simulation.process("broker-1", main)
        broker.start()
        simulation.run(60)
        broker.kill()

The same seed gives the same run, event by event, and the same `trace.digest`, if the interpreter
was started with `PYTHONHASHSEED=0`: otherwise the order of sets of strings is random.
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
    """A condition did not become true before its deadline."""


class Simulation:
    """One run. A context manager that turns the garbage collector off, and collects at the end."""

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
        """The host of that name; the first call creates it."""
        if name not in self.hosts:
            self.hosts[name] = SimulatedHost(self.schedule, name)
        return self.hosts[name]

    def process(self, name: str, main: Main, *, host: str | None = None) -> SimulatedProcess:
        """Creates a process, not started yet, by default on its own host."""
        process = SimulatedProcess(self.schedule, self.network, self.host(host or name), name, main)
        process.on_error = lambda message, error: self.errors.append(
            f"{self.now_s:.6f} {name}: {message}: {error!r}"
        )
        self.processes[name] = process
        return process

    def run(self, seconds: float) -> None:
        """Runs the simulation for `seconds`."""
        self.schedule.run(self.now_s + seconds)

    def run_until(self, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Runs the simulation until `done`; raises `SimulationError` at the deadline."""
        if not self.schedule.run(self.now_s + timeout_s, done):
            raise SimulationError(f"not within {timeout_s:g} s: {what}")

    def do(
        self,
        incarnation: Incarnation,
        call: Callable[[], Coroutine[Any, Any, T]],
        timeout_s: float = 60.0,
    ) -> T:
        """Runs a coroutine in a process, while the simulation continues; returns its result."""
        task = incarnation.run(call())
        what = getattr(task.get_coro(), "__qualname__", "the coroutine")
        self.run_until(task.done, timeout_s, f"{incarnation.name} finished {what}")
        return task.result()

    def __enter__(self) -> Self:
        self._collects = gc.isenabled()
        gc.disable()  # its timing does not depend on the seed alone
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self.processes.values():
            process.release_ended()
        if self._collects:
            gc.enable()
        gc.collect()
