"""A cluster on this machine: a ZooKeeper if none is given, and some brokers, each a process.

Everything is in one directory: `broker-N` with settings, log and topics, `zookeeper`, and
`cluster.json`, which says what runs and lets other commands find it. Who is killed takes nothing
down but itself; when the command is killed, its guardian ends the rest.
"""

import fcntl
import json
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final, NamedTuple

from headrace.cli.cluster.local_broker import LocalBroker
from headrace.cli.cluster.process_reaper import ProcessReaper
from headrace.cli.exits import CommandFailed
from headrace.zookeeper_server import (
    LOOPBACK,
    ZooKeeperServer,
    ZooKeeperUnavailable,
    jars,
    java_command,
)

STATE_FILE: Final = "cluster.json"
LOCK_FILE: Final = "cluster.lock"
EMBEDDED: Final = "embedded"
REPLICAS: Final = 3
MIN_IN_SYNC: Final = 2


class LocalClusterPlan(NamedTuple):
    """What was asked for."""

    folder: Path
    brokers: int
    port: int
    zookeeper: str = EMBEDDED
    settings: Mapping[str, str] = {}
    ephemeral: bool = False


class LocalCluster:
    """The processes; the caller watches them."""

    def __init__(self, plan: LocalClusterPlan) -> None:
        self.plan = plan
        self.folder = plan.folder
        self.brokers = [
            LocalBroker(number, port, plan.folder / f"broker-{number}")
            for number, port in enumerate(_ports(plan), start=1)
        ]
        self._zookeeper: ZooKeeperServer | None = None
        self._guardian: ProcessReaper | None = None
        self._lock: IO[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{LOOPBACK}:{broker.port}" for broker in self.brokers)

    @property
    def zookeeper(self) -> str:
        """Where ZooKeeper is, with the chroot if there is one."""
        return self._zookeeper.address if self._zookeeper is not None else self.plan.zookeeper

    def check(self) -> None:
        """Raises `CommandFailed` where something is missing, before anything is started."""
        if find_spec("kazoo") is None:
            raise CommandFailed(
                "a cluster needs kazoo, which is not installed: pip install 'headrace[cluster]'"
            )
        if self.plan.zookeeper == EMBEDDED:
            try:
                jars()
                java_command()
            except ZooKeeperUnavailable as error:
                raise CommandFailed(f"{error} (--zookeeper HOST:PORT)") from error
        for broker in self.brokers:
            try:
                socket.create_server((LOOPBACK, broker.port)).close()
            except OSError as error:
                reason = os.strerror(error.errno or 0)
                raise CommandFailed(
                    f"broker {broker.id} cannot listen on {LOOPBACK}:{broker.port}: {reason}; "
                    "choose other ports with --port"
                ) from error

    def lock(self) -> None:
        """Takes the directory; `CommandFailed` if another cluster runs in it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = take_lock(self.folder)
        if self._lock is None:
            raise CommandFailed(
                f"a cluster runs in {self.folder} already; stop it with headrace cluster shutdown "
                "--execute, or choose another directory with --data"
            )

    def start(self) -> None:
        """Starts ZooKeeper, waits for it, and starts the brokers; blocks for some seconds."""
        self._guardian = ProcessReaper()
        if self.plan.ephemeral:
            self._guardian.remove(str(self.folder))
        if self.plan.zookeeper == EMBEDDED:
            self._start_zookeeper(self._guardian)
        for broker in self.brokers:
            broker.configure(self._settings_of(broker))
            self.start_broker(broker)

    def _start_zookeeper(self, guardian: ProcessReaper) -> None:
        server = ZooKeeperServer(self.folder / "zookeeper")
        try:
            server.launch()
            self._zookeeper = server
            if server.pid is not None:
                guardian.last(server.pid)
            server.wait_until_serving()
        except ZooKeeperUnavailable as error:
            raise CommandFailed(str(error)) from error

    def start_broker(self, broker: LocalBroker) -> None:
        assert self._guardian is not None
        before = broker.pid
        if before is not None:
            self._guardian.gone(before)
        self._guardian.first(broker.start())
        self.write_state()

    def _settings_of(self, broker: LocalBroker) -> dict[str, str]:
        replicas = str(min(REPLICAS, len(self.brokers)))
        in_sync = str(min(MIN_IN_SYNC, max(1, len(self.brokers) - 1)))
        named = {
            "node.id": str(broker.id),
            "listeners": f"PLAINTEXT://{LOOPBACK}:{broker.port}",
            "log.dirs": str((broker.folder / "data").absolute()),
            "zookeeper.connect": self.zookeeper,
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
        }
        return named | dict(self.plan.settings)

    def write_state(self) -> None:
        """Who runs here, for commands from other terminals."""
        state = {
            "pid": os.getpid(),
            "bootstrap_servers": self.bootstrap_servers,
            "zookeeper": self.zookeeper,
            "brokers": [
                {"id": broker.id, "port": broker.port, "pid": broker.pid if broker.runs else None}
                for broker in self.brokers
            ],
        }
        temporary = self.folder / f"{STATE_FILE}.new"
        temporary.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        temporary.replace(self.folder / STATE_FILE)

    @property
    def zookeeper_runs(self) -> bool:
        """Whether our own ZooKeeper is alive; somebody else's is not ours to watch."""
        return self._zookeeper is None or self._zookeeper.pid is not None

    def stop_zookeeper(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.stop()

    def close(self) -> None:
        """Ends whatever still runs, and leaves the directory to the next."""
        for broker in self.brokers:
            broker.kill()
        if self._zookeeper is not None:
            self._zookeeper.stop()
        if self._lock is not None:
            (self.folder / STATE_FILE).unlink(missing_ok=True)
        if self._guardian is not None:
            self._guardian.close()
        if self._lock is not None:
            self._lock.close()


def _ports(plan: LocalClusterPlan) -> list[int]:
    if plan.port:
        return list(range(plan.port, plan.port + plan.brokers))
    with ExitStack() as held:  # all at once, or the same port might come twice
        found = [
            held.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(plan.brokers)
        ]
        return [each.getsockname()[1] for each in found]


def take_lock(folder: Path) -> IO[str] | None:
    """The lock of a cluster's directory, as long as the file is open; None if another has it."""
    opened = (folder / LOCK_FILE).open("a", encoding="utf-8")
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        opened.close()
        return None
    return opened


class RunningCluster(NamedTuple):
    """What `cluster.json` says of a cluster that runs."""

    pid: int
    bootstrap_servers: str
    brokers: Mapping[int, int | None]


def find_running(folder: Path) -> RunningCluster | None:
    """The cluster that runs in a directory; a file that a crash left behind is none."""
    try:
        state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        lock = take_lock(folder)
    except OSError:
        return None
    if lock is not None:
        lock.close()
        return None
    brokers = {each["id"]: each["pid"] for each in state["brokers"]}
    return RunningCluster(state["pid"], state["bootstrap_servers"], brokers)
