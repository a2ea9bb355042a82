"""Simulated machines and the processes that live on them, one life after the other."""

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
    """A machine: its disk and its clocks outlive what runs on it."""

    def __init__(self, schedule: Schedule, name: str) -> None:
        self.name = name
        self.disk = Disk(schedule, name)
        self.clock = SimulatedClock(schedule)
        self.metadata = SimulatedMetadata()


class Incarnation:
    """One process from its start to its end; `world` is what a broker in it is given."""

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
            host_name=lambda: host.name,
        )
        self.main: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self.thing: Any = None  # what `main` wants others to find

    def run(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Starts it in this process."""
        task = self.loop.inside(lambda: self.loop.create_task(coroutine))
        self._tasks.append(task)
        return task


class SimulatedProcess:
    """A program that can be started, killed, paused and started again on what it left behind."""

    def __init__(
        self, schedule: Schedule, network: Network, host: SimulatedHost, name: str, main: Main
    ) -> None:
        self.schedule = schedule
        self.network = network
        self.host = host
        self.name = name
        self.life: Incarnation | None = None
        self.lives = 0
        self.exit_error: BaseException | None = None
        self.after_turn: Callable[[], None] | None = None
        self.on_error: Callable[[str, BaseException | None], None] | None = None
        self.on_start: Callable[[Incarnation], None] | None = None
        self.on_end: Callable[[Incarnation], None] | None = None
        self._main = main
        self._graveyard: list[tuple[Incarnation, set[asyncio.Task[Any]]]] = []

    @property
    def running(self) -> bool:
        return self.life is not None

    @property
    def paused(self) -> bool:
        return self.life is not None and self.life.loop.paused

    def start(self) -> Incarnation:
        assert self.life is None, f"{self.name} runs"
        self.lives += 1
        self.schedule.note(f"start {self.name} for the {self.lives}. time")
        self.network.switch_on(self.host.name)
        life = self.life = Incarnation(self, self.lives)
        self.exit_error = None
        life.loop.after_turn = self.after_turn
        life.loop.failed = self.on_error
        if self.on_start is not None:
            self.on_start(life)
        life.main = life.run(self._main(life))
        life.main.add_done_callback(lambda done: self._exited(life, done))
        return life

    def kill(self) -> None:
        """SIGKILL: no code of the process runs any more; the host closes its sockets."""
        life = self._end("kill")
        self.network.process_ended(life.loop)
        self.host.disk.process_ended()

    def lose_power(self) -> None:
        """The host is off: silence, and what was not synced may be lost."""
        life = self._end("power loss")
        self.network.switch_off(self.host.name)
        self.network.process_ended(life.loop)
        self.host.disk.power_lost(self.schedule.random_of(f"{life.name}/power"))

    def pause(self) -> None:
        """SIGSTOP: everything stands still, timers run out unnoticed."""
        if self.life is not None and not self.life.loop.paused:
            self.schedule.note(f"pause {self.name}")
            self.life.loop.pause()

    def resume(self) -> None:
        if self.life is not None and self.life.loop.paused:
            self.schedule.note(f"resume {self.name}")
            self.life.loop.resume()

    def _exited(self, life: Incarnation, done: "asyncio.Task[None]") -> None:
        if self.life is not life:
            return
        self.exit_error = None if done.cancelled() else done.exception()
        self._end(f"exit {self.exit_error or ''}".rstrip())
        self.network.process_ended(life.loop)
        self.host.disk.process_ended()

    def _end(self, how: str) -> Incarnation:
        life, self.life = self.life, None
        assert life is not None, f"{self.name} does not run"
        self.schedule.note(f"{how} {self.name}")
        life.loop.kill()
        # Kept to the end of the simulation: a coroutine that is collected runs its clean-up code,
        # which a killed process does not.
        tasks = asyncio.all_tasks(life.loop)
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._graveyard.append((life, tasks))
        if self.on_end is not None:
            self.on_end(life)
        return life

    def bury(self) -> None:
        """After the simulation: lets go of the dead, whose clean-up code can do no harm now."""
        if self.life is not None:
            self._end("over")
        for life, tasks in self._graveyard:
            for task in tasks:
                life.loop.inside(lambda task=task: _close(task))  # type: ignore[misc]
        self._graveyard.clear()


def _close(task: "asyncio.Task[Any]") -> None:
    with contextlib.suppress(BaseException):  # whatever the dead have to say
        task.get_coro().close()
