"""A cluster on this machine: a process for each broker, and ZooKeeper unless one is given.

Everything is in one directory: `broker-N` with settings, log and topics, `zookeeper`, and
`cluster.json`, which lets other commands find the processes. A process that is killed does not
affect the others. If the command itself is killed, its `ProcessReaper` stops the rest.
"""

import fcntl
import json
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from headrace.cli.cluster.local_broker import LocalBroker
from headrace.cli.cluster.local_console import LocalConsole, console_port
from headrace.cli.cluster.process_reaper import ProcessReaper
from headrace.cli.exit_codes import CommandFailed
from headrace.cluster.replication_settings import replication_settings
from headrace.cluster.settings import BrokerSettings
from headrace.zookeeper_server import (
    LOOPBACK,
    ZooKeeperServer,
    ZooKeeperUnavailable,
    jars,
    java_command,
)

if TYPE_CHECKING:
    from headrace.cli.cluster.secured_cluster import SecuredCluster

STATE_FILE: Final = "cluster.json"
LOCK_FILE: Final = "cluster.lock"
EMBEDDED: Final = "embedded"
SECURITY_FOLDER: Final = "security"


class LocalClusterPlan(NamedTuple):
    """The options of `cluster up`."""

    folder: Path
    brokers: int
    port: int
    zookeeper: str = EMBEDDED
    settings: Mapping[str, str] = {}
    ephemeral: bool = False
    secure: bool = False
    http: int | None = None
    """The HTTP port of the first broker; the others use the next ports. 0 selects free ports."""
    console: bool = False


class LocalCluster:
    """The processes of a local cluster; the caller watches them."""

    def __init__(self, plan: LocalClusterPlan) -> None:
        self.plan = plan
        self.folder = plan.folder
        self.brokers = [
            LocalBroker(number, port, plan.folder / f"broker-{number}", http_port)
            for number, (port, http_port) in enumerate(_choose_ports(plan), start=1)
        ]
        self.console = LocalConsole(self._console_port(), plan.folder) if plan.console else None
        self.secured = _secured(plan, self.bootstrap_servers) if plan.secure else None
        self._zookeeper: ZooKeeperServer | None = None
        self._reaper: ProcessReaper | None = None
        self._lock: IO[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{LOOPBACK}:{broker.port}" for broker in self.brokers)

    def _console_port(self) -> int:
        taken = {each for broker in self.brokers for each in (broker.port, broker.http_port)}
        return console_port(self.plan.port, {port for port in taken if port is not None})

    @property
    def http_urls(self) -> list[str]:
        """Where the brokers serve metrics and probes."""
        return [
            f"http://{LOOPBACK}:{broker.http_port}"
            for broker in self.brokers
            if broker.http_port is not None
        ]

    @property
    def zookeeper(self) -> str:
        """The address of ZooKeeper, with its chroot."""
        return self._zookeeper.address if self._zookeeper is not None else self.plan.zookeeper

    def check(self) -> None:
        """Raises `CommandFailed` if a requirement is missing, before any process starts."""
        if self.secured is None and (self.folder / SECURITY_FOLDER).exists():
            raise CommandFailed(
                f"the cluster in {self.folder} is secured: start it with --secure, or choose "
                "another directory with --data"
            )
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
            for port, option in ((broker.port, "--port"), (broker.http_port, "--http")):
                if port is not None:
                    _check_free(broker, port, option)
        if self.console is not None:
            self.console.check()

    def lock(self) -> None:
        """Locks the directory. Raises `CommandFailed` if another cluster runs in it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = take_lock(self.folder)
        if self._lock is None:
            raise CommandFailed(
                f"a cluster already runs in {self.folder}; stop it with headrace cluster shutdown "
                "--execute, or choose another directory with --data"
            )

    def start(self) -> None:
        """Starts ZooKeeper, waits until it serves, and starts the brokers. Blocks for seconds."""
        self._reaper = ProcessReaper()
        if self.plan.ephemeral:
            self._reaper.remove(str(self.folder))
        if self.plan.zookeeper == EMBEDDED:
            self._start_zookeeper(self._reaper)
        if self.secured is not None:
            self.secured.prepare()
            self.secured.add_users(BrokerSettings.parse(self._settings_of(self.brokers[0])))
        for broker in self.brokers:
            broker.configure(self._settings_of(broker))
            self.start_broker(broker)

    def _start_zookeeper(self, reaper: ProcessReaper) -> None:
        server = ZooKeeperServer(self.folder / "zookeeper")
        try:
            server.launch()
            self._zookeeper = server
            if server.pid is not None:
                reaper.last(server.pid)
            server.wait_until_serving()
        except ZooKeeperUnavailable as error:
            raise CommandFailed(str(error)) from error

    def start_broker(self, broker: LocalBroker) -> None:
        assert self._reaper is not None
        before = broker.pid
        if before is not None:
            self._reaper.gone(before)
        self._reaper.first(broker.start())
        self.write_state()

    def _settings_of(self, broker: LocalBroker) -> dict[str, str]:
        protocol = "PLAINTEXT" if self.secured is None else "SASL_SSL"
        named = {
            **({} if self.secured is None else self.secured.settings),
            "node.id": str(broker.id),
            "listeners": f"{protocol}://{LOOPBACK}:{broker.port}",
            "log.dirs": str((broker.folder / "data").absolute()),
            "zookeeper.connect": self.zookeeper,
            **replication_settings(len(self.brokers)),
        }
        if broker.http_port is not None:
            named["headrace.http.listener"] = f"http://{LOOPBACK}:{broker.http_port}"
        return named | dict(self.plan.settings)

    def start_console(self) -> None:
        """Starts the console, if the plan has one."""
        if self.console is not None:
            client_file = None if self.secured is None else self.secured.client
            self.console.start(self.bootstrap_servers, client_file)

    def write_state(self, joined: Mapping[int, str] | None = None) -> None:
        """Writes the running processes to a file, for commands in other terminals.

        `joined` are the addresses of members that this command did not start.
        """
        state = {
            "pid": os.getpid(),
            "bootstrap_servers": self.bootstrap_servers,
            "zookeeper": self.zookeeper,
            "brokers": [
                {
                    "id": broker.id,
                    "port": broker.port,
                    "http_port": broker.http_port,
                    "pid": broker.pid if broker.runs else None,
                }
                for broker in self.brokers
            ],
            "joined": [{"id": id_, "address": address} for id_, address in (joined or {}).items()],
        }
        temporary = self.folder / f"{STATE_FILE}.new"
        temporary.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        temporary.replace(self.folder / STATE_FILE)

    @property
    def zookeeper_runs(self) -> bool:
        """Whether the embedded ZooKeeper is alive; an external one is not watched."""
        return self._zookeeper is None or self._zookeeper.pid is not None

    def stop_zookeeper(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.stop()

    def close(self) -> None:
        """Kills the processes that still run, and unlocks the directory."""
        if self.console is not None:
            self.console.stop()
        for broker in self.brokers:
            broker.kill()
        if self._zookeeper is not None:
            self._zookeeper.stop()
        if self._lock is not None:
            (self.folder / STATE_FILE).unlink(missing_ok=True)
        if self._reaper is not None:
            self._reaper.close()
        if self._lock is not None:
            self._lock.close()


def _secured(plan: LocalClusterPlan, servers: str) -> "SecuredCluster":
    from headrace.cli.cluster.secured_cluster import SecuredCluster

    return SecuredCluster(plan.folder / SECURITY_FOLDER, servers)


def _check_free(broker: LocalBroker, port: int, option: str) -> None:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise CommandFailed(
            f"broker {broker.id} cannot listen on {LOOPBACK}:{port}: {reason}; "
            f"choose other ports with {option}"
        ) from error


def _choose_ports(plan: LocalClusterPlan) -> list[tuple[int, int | None]]:
    """The port and the HTTP port of each broker."""
    with ExitStack() as held:  # all open at once, so that each port is different
        ports = _ports_from(plan.port, plan.brokers, held)
        if plan.http is None:
            return [(port, None) for port in ports]
        return list(zip(ports, _ports_from(plan.http, plan.brokers, held), strict=True))


def _ports_from(first: int, number: int, held: ExitStack) -> list[int]:
    if first:
        return list(range(first, first + number))
    found = [held.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(number)]
    return [each.getsockname()[1] for each in found]


def take_lock(folder: Path) -> IO[str] | None:
    """Locks a cluster's directory while the file is open; None if it is locked already."""
    opened = (folder / LOCK_FILE).open("a", encoding="utf-8")
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)  # names its holder to `holder_of`
    except OSError:
        opened.close()
        return None
    return opened
