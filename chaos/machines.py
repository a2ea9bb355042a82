"""Disks that fill up, are slow or fail, and clocks that jump, separately for each broker.

A broker's data is on a small file system in memory, which is mounted inside the run's own
namespace. A preloaded library (`bad_machine.c`) causes all other faults.
"""

import os
import struct
import subprocess
from pathlib import Path

from bench.artifacts import COMPILE_TIMEOUT_S, require, run, staging

SOURCE = Path(__file__).parent / "bad_machine.c"
SIZE_MB = 512
BALLAST = "ballast"
CHUNK = bytes(1 << 20)
VARIABLE = "HEADRACE_CHAOS_MACHINE"
# Extra microseconds of a write and of a flush, whether flushes fail, how far a clock is ahead.
STATE = struct.Struct("=IIIi")


def library(folder: Path) -> Path:
    """The compiled library, in that folder."""
    built = folder / "bad_machine.so"
    if built.exists():
        return built
    require("gcc", "A C compiler is needed for slow disks: install it (Debian: gcc).")
    with staging(built) as fresh:
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        run(["gcc", *flags, "-o", str(fresh), str(SOURCE), "-ldl"], COMPILE_TIMEOUT_S)
        fresh.rename(built)
    return built


class Machine:
    """`environment` exposes a process to the faults of its machine."""

    def __init__(self, home: Path, data: Path, shim: Path, *, mounted: bool) -> None:
        self._data = data
        self._control = home / "machine-state"
        self._mounted = mounted
        data.mkdir(parents=True, exist_ok=True)
        if mounted:
            options = f"size={SIZE_MB}m"
            mount = ["mount", "-t", "tmpfs", "-o", options, "chaos", str(data)]
            subprocess.run(mount, check=True, capture_output=True)
        self._set()
        self.environment = {"LD_PRELOAD": str(shim), VARIABLE: str(self._control)}

    def slow(self, write_ms: int, flush_ms: int) -> None:
        self._set(write_us=write_ms * 1000, flush_us=flush_ms * 1000)

    def fail_flushes(self) -> None:
        self._set(flushes_fail=True)

    def set_clock(self, ahead_s: int) -> None:
        """Sets the wall clock of the process; others keep theirs."""
        self._set(ahead_s=ahead_s)

    def fill(self) -> None:
        """Uses up all remaining space."""
        assert self._mounted, "only a disk of our own may be filled"
        with (self._data / BALLAST).open("wb", buffering=0) as ballast:
            for size in (len(CHUNK), 4096):
                try:
                    while True:
                        ballast.write(CHUNK[:size])
                except OSError:
                    continue

    def heal(self) -> None:
        self._set()
        (self._data / BALLAST).unlink(missing_ok=True)

    def close(self) -> None:
        self.heal()
        if self._mounted:
            subprocess.run(["umount", "--lazy", str(self._data)], check=False, capture_output=True)

    def _set(
        self, write_us: int = 0, flush_us: int = 0, flushes_fail: bool = False, ahead_s: int = 0
    ) -> None:
        file = os.open(self._control, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.pwrite(file, STATE.pack(write_us, flush_us, flushes_fail, ahead_s), 0)
        finally:
            os.close(file)
