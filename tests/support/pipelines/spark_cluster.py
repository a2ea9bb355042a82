"""A Spark standalone cluster and a Spark Connect server, from the jars in PySpark.

All processes listen on loopback. Each has its own process group, and all are killed at the end.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from support.brokers.processes import LOOPBACK, free_port
from support.waiting import wait_for

SPARK_HOME: Final = Path(pyspark.__file__).parent
START_DEADLINE_S: Final = 120.0
END_DEADLINE_S: Final = 30.0
WORKER_CORES: Final = 1
WORKER_MEMORY: Final = "1500m"
DAEMON_MEMORY: Final = "256m"
CONNECT_MEMORY: Final = "600m"
"""More memory than for a daemon: the server is also a driver."""
CONNECT: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
LOG_TAIL_CHARACTERS: Final = 4000
SMALL: Final[Mapping[str, str]] = {
    "spark.executor.memory": "600m",
    "spark.driver.memory": "600m",
    "spark.sql.shuffle.partitions": "2",
}
"""Settings for `spark:` of a spec, and for a Connect server, that use few resources of the
machine."""


class SparkProcess:
    """One of Spark's daemons, and all processes that it starts."""

    def __init__(
        self,
        name: str,
        home: Path,
        arguments: Iterable[str],
        program: str,
        memory: str = DAEMON_MEMORY,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.log = home / f"{name}.log"
        self._name = name
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(SPARK_HOME / "bin" / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,  # not the directory of a test or a driver
                env=_environment(home, memory),
                start_new_session=True,
            )

    def says(self, pattern: str) -> re.Match[str]:
        """Waits for a line in its log."""

        def said() -> re.Match[str] | None:
            text = self.log.read_text(errors="replace")
            if self._process.poll() is not None:
                raise AssertionError(f"{self._name} has ended:\n{text[-LOG_TAIL_CHARACTERS:]}")
            return re.search(pattern, text)

        return wait_for(said, f"{self._name} says {pattern}", deadline_s=START_DEADLINE_S)

    def kill(self) -> None:
        """Sends kill -9 to the daemon and all its descendants at the same time."""
        doomed = [self._process.pid, *_descendants(self._process.pid)]
        for pid in doomed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(END_DEADLINE_S)
        wait_for(
            lambda: not any(_alive(pid) for pid in doomed),
            f"{self._name} is gone",
            deadline_s=END_DEADLINE_S,
        )


class SparkCluster:
    """A standalone master and its workers."""

    def __init__(self, home: Path, workers: int = 2) -> None:
        self._home = home
        self._wanted = workers
        self._started: list[SparkProcess] = []
        self.workers: list[SparkProcess] = []
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def _start(self) -> None:
        arguments = _on_loopback("org.apache.spark.deploy.master.Master")
        master = SparkProcess("master", self._home, arguments, "spark-class")
        self._started.append(master)
        self.url = master.says(r"Starting Spark master at (spark://\S+)")[1]
        for _ in range(self._wanted):
            self.add_worker()

    def add_worker(self) -> SparkProcess:
        """Starts a worker; returns when the master has registered it."""
        name = f"worker-{len(self._started)}"
        home = self._home / name
        arguments = [
            *_on_loopback("org.apache.spark.deploy.worker.Worker"),
            *("--cores", str(WORKER_CORES), "--memory", WORKER_MEMORY),
            *("--work-dir", str(home), self.url),
        ]
        worker = SparkProcess(name, home, arguments, "spark-class")
        self._started.append(worker)
        worker.says("Successfully registered with master")
        self.workers.append(worker)
        return worker

    def kill_worker(self) -> None:
        """Sends kill -9 to one worker and its executors."""
        self.workers.pop().kill()

    def kill(self) -> None:
        for each in reversed(self._started):
            each.kill()
        self._started.clear()
        self.workers.clear()


class ConnectServer:
    """A Spark Connect server; `master` may be that of a standalone cluster."""

    def __init__(self, home: Path, master: str = "local[2]") -> None:
        port = free_port()
        settings = {
            **SMALL,
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.host": LOOPBACK,
            "spark.ui.enabled": "false",
        }
        conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        arguments = ["--class", CONNECT, "--master", master, *conf, "spark-internal"]
        self.url = f"sc://{LOOPBACK}:{port}"
        self._process = SparkProcess("connect", home, arguments, "spark-submit", CONNECT_MEMORY)

    def __enter__(self) -> Self:
        try:
            self._process.says("Spark Connect server started")
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()


def _on_loopback(name: str) -> list[str]:
    return [name, "--host", LOOPBACK, "--port", "0", "--webui-port", "0"]


def _environment(home: Path, memory: str) -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(home / "local"),
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # it would need another port
        "PYSPARK_PYTHON": sys.executable,
    }


def _alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def _descendants(pid: int) -> list[int]:
    """All processes below this one, from the kernel's process table."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    rest = [pid]
    while rest:
        children = parents.get(rest.pop(), [])
        found += children
        rest += children
    return found
