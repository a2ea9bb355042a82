"""The disk of one simulated host: memory files that count in the trace, and take their time."""

from collections.abc import Callable
from random import Random
from typing import Final

from headrace.testing.memory_files import MemoryFileSystem
from headrace.testing.simulation.loop import ProcessLoop
from headrace.testing.simulation.schedule import Schedule

WRITE_S: Final = 20e-6
SYNC_S: Final = 300e-6
SLOW_SYNC: Final = 0.01  # how many take much longer than the others
SLOW_SYNC_S: Final = 0.05


class Disk:
    """What survives the processes of one host, and how fast it is."""

    def __init__(self, schedule: Schedule, host: str) -> None:
        self.schedule = schedule
        self.host = host
        self.slowness = 1.0
        self._files = MemoryFileSystem()
        self._random = schedule.random_of(f"disk/{host}")

    def mount(self, loop: ProcessLoop) -> "SimulatedFiles":
        """The files for a new process."""
        mounted = SimulatedFiles(self, loop)
        mounted.root = self._files.root
        mounted.capacity_bytes = self._files.capacity_bytes
        self._files = mounted
        return mounted

    def process_ended(self) -> None:
        """What was written is written, synced or not; the dead process cannot write any more."""
        after = self._files.after_kill()
        self._files.is_off = True
        self._files = after

    def power_lost(self, chance: Random) -> None:
        """What was not synced may be there, not there, or there in part."""
        after = self._files.after_power_loss(chance)
        self._files.is_off = True
        self._files = after

    def limit(self, room_bytes: int | None) -> None:
        """Leaves so much room, or as much as anybody could want."""
        used = self._files.used_bytes()
        self._files.capacity_bytes = None if room_bytes is None else used + room_bytes

    def fail_syncs(self, fails: bool = True) -> None:
        """Every sync of the process that runs now is refused, or none any more."""
        files = self._files
        files.fault_on = lambda operation: operation.startswith("fsync")
        files.fault_at, files.fault_lasts = (0, True) if fails else (None, False)

    @property
    def is_in_trouble(self) -> bool:
        """Whether it may be the end of its process."""
        return self._files.capacity_bytes is not None or self._files.fault_at is not None

    def write_s(self) -> float:
        return WRITE_S * self.slowness

    def sync_s(self) -> float:
        taken_s = self._random.expovariate(1 / SYNC_S)
        if self._random.random() < SLOW_SYNC:
            taken_s += self._random.random() * SLOW_SYNC_S
        return taken_s * self.slowness


class SimulatedFiles(MemoryFileSystem):
    """A `FileSystem` of one process."""

    def __init__(self, disk: Disk, loop: ProcessLoop) -> None:
        super().__init__()
        self._disk = disk
        self.charge: Callable[[float], None] = loop.spend  # whose time a call takes

    def _step(self, operation: str) -> None:
        super()._step(operation)
        disk = self._disk
        disk.schedule.trace.count(disk.schedule.now_s, operation, self.operations)
        self.charge(disk.sync_s() if operation.startswith("fsync") else disk.write_s())
