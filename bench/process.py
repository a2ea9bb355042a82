"""CPU time and memory of a process and its children, from the kernel.

Linux only, because the figures come from /proc.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BYTES_PER_KB = 1024

# Fields of /proc/PID/stat, counted after the command's closing parenthesis.
UTIME, STIME, CUTIME, CSTIME = 11, 12, 13, 14


@dataclass(frozen=True, slots=True)
class Memory:
    rss_bytes: int
    pss_bytes: int


def cpu_seconds(pid: int) -> float:
    """CPU time of the process with all its threads, and of its children, live or waited for."""
    return sum(_own_cpu_seconds(member) for member in tree(pid))


def memory(pid: int) -> Memory:
    """Resident and proportional memory of the process and its live children."""
    rss = pss = 0
    for member in tree(pid):
        for line in (PROC / str(member) / "smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "Rss":
                rss += int(rest.split()[0]) * BYTES_PER_KB
            elif name == "Pss":
                pss += int(rest.split()[0]) * BYTES_PER_KB
    return Memory(rss_bytes=rss, pss_bytes=pss)


def peak_bytes(pid: int) -> int:
    """The peak resident memory of the process itself."""
    status = (PROC / str(pid) / "status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * BYTES_PER_KB


def command_line(pid: int) -> list[str]:
    return (PROC / str(pid) / "cmdline").read_text().rstrip("\0").split("\0")


def tree(pid: int) -> Iterator[int]:
    """The process and its live descendants; threads may start and end meanwhile."""
    yield pid
    try:
        tasks = list((PROC / str(pid) / "task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield from tree(int(child))


def _own_cpu_seconds(pid: int) -> float:
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it has ended meanwhile; its parent has its CPU time
    ticks = sum(int(fields[index]) for index in (UTIME, STIME, CUTIME, CSTIME))
    return ticks / TICKS_PER_S
