"""A description of the machine, with what a reader needs to judge the figures."""

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.artifacts import KAFKA_VERSION


@dataclass(frozen=True, slots=True)
class Machine:
    processor: str
    cores: int
    memory_gb: float
    system: str
    file_system: str
    python: str
    java: str
    librdkafka: str
    kafka: str


def describe(work: Path) -> Machine:
    meminfo = Path("/proc/meminfo").read_text()
    return Machine(
        processor=_first(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(int(_first(r"MemTotal:\s*(\d+)", meminfo) or 0) / 1e6, 1),
        system=f"{platform.system()} {platform.release()}",
        file_system=_output("stat", "--file-system", "--format=%T", str(work)),
        python=platform.python_version(),
        java=_first(r'version "([^"]+)"', _output("java", "-version")),
        librdkafka=_output("pkg-config", "--modversion", "rdkafka"),
        kafka=KAFKA_VERSION,
    )


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found.group(1).strip() if found else ""


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return (done.stdout or done.stderr).strip() if not done.returncode else ""
