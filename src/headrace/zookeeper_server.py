"""A local ZooKeeper from the jars in PySpark's wheel: for `headrace cluster up` and for tests.

    with ZooKeeperServer(Path("data/zookeeper")) as zookeeper:
        ... zookeeper.address ...

The data stays in the directory, so a server that is restarted there continues with it. An ensemble
of three shows what happens when ZooKeeper itself fails. In production run a separate ensemble.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from headrace.child_process import end_process

LOOPBACK: Final = "127.0.0.1"

START_DEADLINE_S: Final = 60.0
STOP_DEADLINE_S: Final = 10.0
_PAUSE_S: Final = 0.02
_RESPONSE_S: Final = 2.0
_EXIT_REASON_S: Final = 15.0

_JARS: Final = ("zookeeper-", "slf4j-api-", "metrics-core-", "snappy-java-")
_NETTY_JARS: Final = ("netty-",)  # TLS
_LOG_JARS: Final = ("log4j-api-", "log4j-core-", "log4j-slf4j2-impl-")

_JVM: Final = (
    "-Xms16m",
    "-Xmx512m",  # thousands of topics need more than 64 MB
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dzookeeper.preAllocSize=1024",  # kB of log allocated in advance; the default is 64 MB
)

_SETTINGS: Final[Mapping[str, object]] = {
    "tickTime": 500,
    "clientPortAddress": LOOPBACK,
    "maxClientCnxns": 0,
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "srvr",
    "minSessionTimeout": 1000,
    "maxSessionTimeout": 60000,
    "initLimit": 20,
    "syncLimit": 10,
    "autopurge.purgeInterval": 1,
}


class ZooKeeperUnavailable(Exception):
    """A local ZooKeeper cannot run; the message says what is missing and how to get it."""


def java_command() -> str:
    """The `java` to run: that of JAVA_HOME, or the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f" at {java}" if java else ""
        raise ZooKeeperUnavailable(
            f"Java was not found{where}. A local ZooKeeper needs Java 11 or newer: install it "
            "(Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME; or use a "
            "ZooKeeper that is already running"
        )
    return java


def jars(prefixes: Sequence[str] = _JARS) -> list[Path]:
    """ZooKeeper's jars in PySpark's wheel, which is located without importing it."""
    spec = find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [
        jar
        for folder in folders
        for jar in sorted((Path(folder) / "jars").glob("*.jar"))
        if jar.name.startswith(tuple(prefixes))
    ]
    if not any(jar.name.startswith("zookeeper-") for jar in found):
        raise ZooKeeperUnavailable(
            "a local ZooKeeper comes with PySpark, which is not installed: "
            "pip install 'headrace[cluster]'; or use a ZooKeeper that is already running"
        )
    return found


def free_port() -> int:
    """An unused port of the loopback interface."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class ZooKeeperServer:
    """One server process. Its port stays the same across restarts."""

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        *,
        settings: Mapping[str, object] | None = None,
        jvm: Sequence[str] = (),
        netty: bool = False,
    ) -> None:
        self.data_dir = data_dir
        self.port = port or free_port()
        self.log = data_dir / "zookeeper.out"
        self._settings = {**_SETTINGS, **(settings or {})}
        self._jvm = (*_JVM, *jvm)
        self._prefixes = (*_JARS, *_NETTY_JARS) if netty else _JARS
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The id of the running process, or None."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when the server accepts requests; raises `ZooKeeperUnavailable`."""
        self.launch()
        self.wait_until_serving()

    def launch(self) -> None:
        """Starts the process without waiting for it."""
        command = self._command(self._prefixes)
        self._check_port()
        self._write_config()
        with self.log.open("wb") as log:
            # Its own process group: Ctrl-C must not end ZooKeeper before the command that uses it.
            self._process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )

    def wait_until_serving(self, deadline_s: float = START_DEADLINE_S) -> None:
        give_up = time.monotonic() + deadline_s
        while self.mode() is None:
            ended = self._process is None or self._process.poll() is not None
            if ended:
                raise ZooKeeperUnavailable(
                    f"ZooKeeper in {self.data_dir} exited: {self._exit_reason()}"
                )
            if time.monotonic() > give_up:
                self.kill()
                raise ZooKeeperUnavailable(
                    f"ZooKeeper in {self.data_dir} did not start within {deadline_s:g} s; "
                    f"its output is in {self.log}"
                )
            time.sleep(_PAUSE_S)

    def mode(self) -> str | None:
        """standalone, leader or follower; None while it does not accept requests."""
        for line in self._four_letter_command("srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ").strip()
        return None

    def stop(self) -> None:
        """Ends the process and keeps the data."""
        self._end_process(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process as a crash would."""
        self._end_process(signal.SIGKILL)

    def pause(self) -> None:
        """Pauses the process until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    # -- helpers --------------------------------------------------------------------------------

    def _main_class(self) -> str:
        ensemble = any(name.startswith("server.") for name in self._settings)
        package = "org.apache.zookeeper.server"
        return f"{package}.quorum.QuorumPeerMain" if ensemble else f"{package}.ZooKeeperServerMain"

    def _command(self, prefixes: Sequence[str]) -> list[str]:
        path = ":".join(str(jar) for jar in jars(prefixes))
        config = str(self.data_dir / "zoo.cfg")
        return [java_command(), *self._jvm, "-cp", path, self._main_class(), config]

    def _write_config(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        settings = {**self._settings, "dataDir": self.data_dir, "clientPort": self.port}
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.data_dir / "zoo.cfg").write_text(text)

    def _check_port(self) -> None:
        try:
            socket.create_server((LOOPBACK, self.port)).close()
        except OSError as error:
            raise ZooKeeperUnavailable(
                f"ZooKeeper cannot listen at {self.address}: {os.strerror(error.errno or 0)}. "
                "Stop the process that uses the port, or choose another one"
            ) from error

    def _four_letter_command(self, word: str) -> str:
        try:
            with socket.create_connection((LOOPBACK, self.port), _RESPONSE_S) as connection:
                connection.sendall(word.encode())
                return connection.makefile("rb").read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _exit_reason(self) -> str:
        """Runs ZooKeeper again with a logging library: without one it fails silently."""
        command = self._command((*self._prefixes, *_LOG_JARS))
        try:
            again = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, timeout=_EXIT_REASON_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"see {self.log}"
        lines = [line.strip() for line in (again.stdout + again.stderr).splitlines()]
        causes = [line for line in lines if "Exception" in line or "ERROR" in line]
        return causes[-1] if causes else f"see {self.log}"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _end_process(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            end_process(process, STOP_DEADLINE_S, number)


class ZooKeeperEnsemble:
    """Several servers that form one ZooKeeper while a majority of them is running."""

    def __init__(
        self, data_dir: Path, size: int = 3, *, settings: Mapping[str, object] | None = None
    ) -> None:
        peers = {
            f"server.{number}": f"{LOOPBACK}:{free_port()}:{free_port()}"
            for number in range(1, size + 1)
        }
        self.servers: list[ZooKeeperServer] = []
        for number in range(1, size + 1):
            folder = data_dir / f"server-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "myid").write_text(f"{number}\n")
            server = ZooKeeperServer(folder, settings={**(settings or {}), **peers})
            self.servers.append(server)

    @property
    def address(self) -> str:
        return ",".join(server.address for server in self.servers)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_until_serving()

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def leader(self) -> ZooKeeperServer | None:
        """The server that leads the ensemble; None during an election."""
        return next((server for server in self.servers if server.mode() == "leader"), None)
