"""Simulated machines and their processes, one incarnation after the other."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from headrace.broker.runtime.environment import Environment
from headrace.testing.simulation.files import Disk, SimulatedFiles
from headrace.testing.simulation.loop import ProcessLoop
from headrace.testing.simulation.network import Network
from headrace.testing.simulation.schedule import Schedule
from headrace.testing.simulation.sim_environment import (
    SimulatedClock,
    SimulatedMetadata,
    SimulatedOffload,
    SimulatedWorker,
)

T = TypeVar("T")
Main = Callable[["Incarnation"], Coroutine[Any, Any, None]]


class SimulatedHost:
    """A machine: its disk and its clocks outlive its processes."""

    def __init__(self, schedule: Schedule, name: str) -> None:
        self.name = name
        self.disk = Disk(schedule, name)
        self.clock = SimulatedClock(schedule)
        self.metadata = SimulatedMetadata()


class Incarnation:
    """One run of a process, from start to end; `world` is the environment of a broker in it."""

    def __init__(self, process: "SimulatedProcess", number: int) -> None:
        schedule, host = process.schedule, process.host
        self.number = number
        self.name = f"{process.name}.{number}"
        self.loop = ProcessLoop(schedule, process.network, host.name, self.name)  # type: ignore[abstract]
        self.files: SimulatedFiles = host.disk.mount(self.loop)
        self.random: Random = schedule.random_of(self.name)
        threads = schedule.random_of(f"{self.name}/threads")
        self.world = Environment(
            clock=host.clock,
            random=self.random,
            files=self.files,
            offload=lambda _loop: SimulatedOffload(self.loop, self.files, threads),
            worker=lambda _loop, offload, _module: SimulatedWorker(self.files, offload),
            metadata_store=host.metadata.open,
            cluster_store=lambda _settings, _clock: None,
            accepts_sockets=False,
            host_name=lambda: host.name,
        )
        self.main: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self.thing: Any = None  # set by `main` for other code

    def run(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Starts the coroutine in this process."""
        task = self.loop.inside(lambda: self.loop.create_task(coroutine))
        self._tasks.append(task)
        return task


class SimulatedProcess:
    """A program that can be started, killed, paused, and started again on the same disk."""

    def __init__(
        self, schedule: Schedule, network: Network, host: SimulatedHost, name: str, main: Main
    ) -> None:
        self.schedule = schedule
        self.network = network
        self.host = host
        self.name = name
        self.incarnation: Incarnation | None = None
        self.incarnations = 0
        self.exit_error: BaseException | None = None
        self.after_turn: Callable[[], None] | None = None
        self.on_error: Callable[[str, BaseException | None], None] | None = None
        self.on_start: Callable[[Incarnation], None] | None = None
        self.on_end: Callable[[Incarnation], None] | None = None
        self._main = main
        self._graveyard: list[tuple[Incarnation, set[asyncio.Task[Any]]]] = []

    @property
    def running(self) -> bool:
        return self.incarnation is not None

    @property
    def paused(self) -> bool:
        return self.incarnation is not None and self.incarnation.loop.paused

    def start(self) -> Incarnation:
        assert self.incarnation is None, f"{self.name} runs"
        self.incarnations += 1
        self.schedule.note(f"start {self.name} for the {self.incarnations}. time")
        self.network.switch_on(self.host.name)
        incarnation = self.incarnation = Incarnation(self, self.incarnations)
        self.exit_error = None
        incarnation.loop.after_turn = self.after_turn
        incarnation.loop.failed = self.on_error
        if self.on_start is not None:
            self.on_start(incarnation)
        incarnation.main = incarnation.run(self._main(incarnation))
        incarnation.main.add_done_callback(lambda done: self._exited(incarnation, done))
        return incarnation

    def kill(self) -> None:
        """Sends SIGKILL: no code of the process runs any more; the host closes its sockets."""
        incarnation = self._end("kill")
        self.network.process_ended(incarnation.loop)
        self.host.disk.process_ended()

    def lose_power(self) -> None:
        """Turns the host off: it sends nothing more, and unsynced bytes may be lost."""
        incarnation = self._end("power loss")
        self.network.switch_off(self.host.name)
        self.network.process_ended(incarnation.loop)
        self.host.disk.power_lost(self.schedule.random_of(f"{incarnation.name}/power"))

    def pause(self) -> None:
        """Sends SIGSTOP: no code runs; timers that become due run after `resume`."""
        if self.incarnation is not None and not self.incarnation.loop.paused:
            self.schedule.note(f"pause {self.name}")
            self.incarnation.loop.pause()

    def resume(self) -> None:
        if self.incarnation is not None and self.incarnation.loop.paused:
            self.schedule.note(f"resume {self.name}")
            self.incarnation.loop.resume()

    def _exited(self, incarnation: Incarnation, done: "asyncio.Task[None]") -> None:
        if self.incarnation is not incarnation:
            return
        self.exit_error = None if done.cancelled() else done.exception()
        self._end(f"exit {self.exit_error or ''}".rstrip())
        self.network.process_ended(incarnation.loop)
        self.host.disk.process_ended()

    def _end(self, how: str) -> Incarnation:
        incarnation, self.incarnation = self.incarnation, None
        assert incarnation is not None, f"{self.name} does not run"
        self.schedule.note(f"{how} {self.name}")
        incarnation.loop.kill()
        # Kept to the end of the simulation: a coroutine that is collected runs its clean-up code,
        # which a killed process does not.
        tasks = asyncio.all_tasks(incarnation.loop)
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._graveyard.append((incarnation, tasks))
        if self.on_end is not None:
            self.on_end(incarnation)
        return incarnation

    def release_ended(self) -> None:
        """Called after the simulation: releases ended processes; clean-up code may run now."""
        if self.incarnation is not None:
            self._end("over")
        for incarnation, tasks in self._graveyard:
            for task in tasks:
                incarnation.loop.inside(lambda task=task: _close(task))  # type: ignore[misc]
        self._graveyard.clear()


def _close(task: "asyncio.Task[Any]") -> None:
    with contextlib.suppress(BaseException):  # errors of ended processes do not matter
        task.get_coro().close()
