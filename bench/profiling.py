"""Optional sampling of Headrace's Python stacks during a run, with py-spy where it is installed."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench.pairing import Around
from bench.workload import Contestant, Workload

SAMPLES_PER_S = 200
STOP_TIMEOUT_S = 30


def find_py_spy() -> str | None:
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


def profiler(py_spy: str, directory: Path) -> Around:
    """Writes a flame graph for each run of a workload that uses the warm Headrace."""
    directory.mkdir(parents=True, exist_ok=True)
    numbers = count(1)

    @contextmanager
    def around(workload: Workload, contestant: Contestant) -> Iterator[None]:
        peer = contestant.running
        if contestant.name != "headrace" or peer is None:
            yield
            return
        target = directory / f"{workload.name}-{next(numbers)}.svg"
        command = [py_spy, "record", "--pid", str(peer.pid), "--rate", str(SAMPLES_PER_S)]
        sampler = subprocess.Popen(
            [*command, "--output", str(target)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            sampler.send_signal(signal.SIGINT)
            sampler.wait(STOP_TIMEOUT_S)

    return around
