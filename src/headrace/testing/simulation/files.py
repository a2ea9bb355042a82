"""The disk of one simulated host: memory files whose operations take time and enter the trace."""

from collections.abc import Callable
from random import Random
from typing import Final

from headrace.testing.memory_files import MemoryFileSystem
from headrace.testing.simulation.loop import ProcessLoop
from headrace.testing.simulation.schedule import Schedule

WRITE_S: Final = 20e-6
SYNC_S: Final = 300e-6
SLOW_SYNC: Final = 0.01  # the share that takes much longer than the others
SLOW_SYNC_S: Final = 0.05


class Disk:
    """The files of one host, which outlive its processes, and their speed."""

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
        """Keeps all written bytes, synced or not; the ended process cannot write any more."""
        after = self._files.after_kill()
        self._files.is_off = True
        self._files = after

    def power_lost(self, chance: Random) -> None:
        """Bytes that were not synced may be kept, lost, or kept in part."""
        after = self._files.after_power_loss(chance)
        self._files.is_off = True
        self._files = after

    def limit(self, room_bytes: int | None) -> None:
        """Limits the free space to `room_bytes`; None removes the limit."""
        used = self._files.used_bytes()
        self._files.capacity_bytes = None if room_bytes is None else used + room_bytes

    def fail_syncs(self, fails: bool = True) -> None:
        """Makes every sync of the running process fail, or succeed again."""
        files = self._files
        files.fault_on = lambda operation: operation.startswith("fsync")
        files.fault_at, files.fault_lasts = (0, True) if fails else (None, False)

    @property
    def may_fail_process(self) -> bool:
        """Whether the disk may make its process fail."""
        return self._files.capacity_bytes is not None or self._files.fault_at is not None

    def write_s(self) -> float:
        return WRITE_S * self.slowness

    def sync_s(self) -> float:
        taken_s = self._random.expovariate(1 / SYNC_S)
        if self._random.random() < SLOW_SYNC:
            taken_s += self._random.random() * SLOW_SYNC_S
        return taken_s * self.slowness


class SimulatedFiles(MemoryFileSystem):
    """The `FileSystem` of one process."""

    def __init__(self, disk: Disk, loop: ProcessLoop) -> None:
        super().__init__()
        self._disk = disk
        self.charge: Callable[[float], None] = loop.spend  # adds the time of a call to the process

    def _begin_change(self, operation: str) -> None:
        super()._begin_change(operation)
        disk = self._disk
        disk.schedule.trace.count(disk.schedule.now_s, operation, self.operations)
        self.charge(disk.sync_s() if operation.startswith("fsync") else disk.write_s())
