"""`headrace cluster up`: a local cluster in the foreground.

Ctrl-C or SIGTERM stops the brokers one after the other, the controller last, and then ZooKeeper;
the exit code is 0. A second signal kills them. A broker that dies stays dead; with `--restart` it
is started again, after a longer pause each time. If no broker starts, the command exits with code
1 and the error of the first broker.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom
from typing import Annotated, Final

import typer

from headrace.cli import command
from headrace.cli.broker.options import DEFAULT_PORT, MAX_PORT
from headrace.cli.broker.up import data_folder
from headrace.cli.cluster.cluster_state import (
    DEAD,
    ELSEWHERE,
    FENCED,
    UNKNOWN,
    BrokerView,
    ClusterView,
    state_of,
)
from headrace.cli.cluster.live_table import Heading, Screen, open_screen
from headrace.cli.cluster.local_broker import LocalBroker, how_it_ended
from headrace.cli.cluster.local_cluster import (
    EMBEDDED,
    LocalCluster,
    LocalClusterPlan,
)
from headrace.cli.cluster.running_cluster import running_brokers
from headrace.cli.cluster.status import Overview, take_overview
from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.name_value_pairs import parse_name_value_pairs
from headrace.client.admin.brokers import BrokerInfo
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.client.login.security import PLAINTEXT
from headrace.clock import SystemClock
from headrace.cluster.settings import BrokerSettings, InvalidSetting

REFRESH_S: Final = 0.5
REFRESH_TIMEOUT_S: Final = 2.0
STOP_S: Final = 30.0
MAX_BROKERS: Final = 64
FIRST_RESTART_S: Final = 0.5
MAX_RESTART_S: Final = 30.0
NOTICED_S: Final = 5.0
"""The cluster notices a dead broker within this time. If it is live later, it runs elsewhere."""
STAYED_UP_S: Final = 60.0
"""After a run of this length, the pause before a restart is short again."""
CLIENT_ID: Final = "headrace-cluster-up"
FOLDER: Final = "cluster"

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Directory of the cluster.",
        show_default="your data directory",
    ),
]


def default_folder() -> Path:
    return data_folder() / FOLDER


def up(
    brokers: Annotated[
        int,
        typer.Option(
            "--brokers",
            "-n",
            metavar="N",
            min=1,
            max=MAX_BROKERS,
            help="Number of brokers, at most 64.",
        ),
    ] = 3,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="PORT",
            min=0,
            max=MAX_PORT,
            help="Port of the first broker; the others use the next ports. 0 selects free ports.",
        ),
    ] = DEFAULT_PORT,
    data: Data = None,
    ephemeral: Annotated[
        bool,
        typer.Option(
            "--ephemeral", help="Use a temporary directory that is removed when the cluster stops."
        ),
    ] = False,
    zookeeper: Annotated[
        str,
        typer.Option(
            "--zookeeper",
            metavar="embedded|HOST:PORT,...",
            help="Addresses of a running ZooKeeper, optionally with a chroot; embedded starts one.",
        ),
    ] = EMBEDDED,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="Accept only clients with TLS and a password; creates certificates, a user and a "
            "client configuration.",
        ),
    ] = False,
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=0,
            max=MAX_PORT,
            help="Serve metrics and probes over HTTP: port of the first broker; the others use "
            "the next ports. 0 selects free ports.",
        ),
    ] = None,
    console: Annotated[
        bool,
        typer.Option(
            "--console",
            help="Start the web console as well, on http://127.0.0.1:9645/ or the next port that "
            "no broker uses; with --port 0, on a free port.",
        ),
    ] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Restart brokers that fail.")] = False,
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a setting of all brokers, such as --set log.retention.hours=1; repeatable.",
        ),
    ] = [],
) -> None:
    """Start a cluster on this machine: a process for each broker, and ZooKeeper."""

    def work() -> ExitCode:
        if ephemeral and data is not None:
            raise usage("--ephemeral and --data exclude each other")
        if port and port + brokers - 1 > MAX_PORT:
            raise usage(f"{brokers} brokers from port {port} on need ports above {MAX_PORT}")
        _check_http(port, http, brokers)
        given = parse_name_value_pairs(settings, "--set")
        _check_settings(given)
        kept = data or default_folder()
        folder = Path(tempfile.mkdtemp(prefix="headrace-")) if ephemeral else kept
        plan = LocalClusterPlan(
            folder.absolute(), brokers, port, zookeeper, given, ephemeral, secure, http, console
        )
        return _run_cluster(LocalCluster(plan), restart=restart)

    raise typer.Exit(command.guard(work))


def _check_http(port: int, http: int | None, brokers: int) -> None:
    if not http:
        return
    if http + brokers - 1 > MAX_PORT:
        raise usage(f"{brokers} brokers from --http {http} on need ports above {MAX_PORT}")
    if port and abs(port - http) < brokers:
        raise usage(
            f"--http {http} and --port {port} overlap: each broker uses one port of both ranges"
        )


def _check_settings(settings: Mapping[str, str]) -> None:
    if settings.get("headrace.http.listener"):
        raise usage("--set headrace.http.listener: `cluster up --http` chooses it for each broker")
    for name in ("node.id", "broker.id", "listeners", "log.dirs", "log.dir", "zookeeper.connect"):
        if name in settings:
            raise usage(f"--set {name}: `cluster up` chooses it for each broker")
    try:
        BrokerSettings.parse(settings)
    except InvalidSetting as error:
        raise usage(str(error)) from error


def _run_cluster(cluster: LocalCluster, *, restart: bool) -> ExitCode:
    cluster.check()
    cluster.lock()
    try:
        with asyncio.Runner() as runner:
            return runner.run(_Supervisor(cluster, restart=restart).run())
    finally:
        cluster.close()


class _Supervisor:
    """Watches the processes and shows the cluster until a signal stops it."""

    def __init__(self, cluster: LocalCluster, *, restart: bool) -> None:
        self._cluster = cluster
        self._restarts = {broker.id: _Restarts() for broker in cluster.brokers} if restart else {}
        self._overview: Overview | None = None
        self._was_up = False
        self._console_ended = False
        self._ended: dict[int, float] = {}
        self._joined: dict[int, BrokerInfo] = {}

    async def run(self) -> ExitCode:
        stopping = asyncio.Event()
        self._handle_signals(stopping)
        cluster = self._cluster
        folder = (
            "a temporary directory (--ephemeral)" if cluster.plan.ephemeral else str(cluster.folder)
        )
        heading = Heading(
            cluster.bootstrap_servers,
            lambda: cluster.zookeeper,
            folder,
            None if cluster.secured is None else str(cluster.secured.client),
            tuple(cluster.http_urls),
            None if cluster.console is None else cluster.console.url,
        )
        with open_screen(heading) as screen:
            event = {
                "event": "starting",
                "bootstrap_servers": cluster.bootstrap_servers,
                "folder": str(cluster.folder),
            }
            if cluster.plan.http is not None:
                event["metrics"] = " ".join(f"{url}/metrics" for url in cluster.http_urls)
            if cluster.secured is not None:
                event["client_settings"] = str(cluster.secured.client)
            screen.say("starting", event)
            await self._start_cluster(screen)
            polling = asyncio.create_task(self._poll_cluster())
            try:
                while not stopping.is_set():
                    self._restart_dead_brokers()
                    self._tend_console(screen)
                    screen.show(self._cluster_view())
                    if self._has_failed_to_start():
                        break
                    await _wait_for(stopping, REFRESH_S)
                await self._stop_cluster(screen)
            finally:
                polling.cancel()
        if not stopping.is_set():
            raise self._startup_failure()
        return ExitCode.OK

    def _has_failed_to_start(self) -> bool:
        """Whether every broker has failed before the cluster ever answered."""
        return (
            not self._was_up
            and not self._restarts
            and all(broker.exit_code for broker in self._cluster.brokers)
        )

    def _startup_failure(self) -> CommandFailed:
        first = self._cluster.brokers[0]
        words = (first.last_lines() or ["it wrote no log"])[-1].removeprefix("headrace: ")
        return CommandFailed(f"no broker started; broker {first.id}: {words} (log: {first.log})")

    async def _start_cluster(self, screen: Screen) -> None:
        # A signal takes effect only after this, when it is known which processes run.
        starting = asyncio.create_task(asyncio.to_thread(self._cluster.start))
        while not starting.done():
            screen.show(self._cluster_view())
            await asyncio.wait([starting], timeout=REFRESH_S)
        await starting

    def _handle_signals(self, stopping: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()

        def first() -> None:
            for number in signals:
                loop.remove_signal_handler(number)
                signal.signal(number, second)
            stopping.set()

        def second(number: int, _: object) -> None:
            self._cluster.close()
            os._exit(128 + number)

        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for number in signals:
            loop.add_signal_handler(number, first)

    async def _poll_cluster(self) -> None:
        """Polls the state of the cluster; it is unknown while no broker answers."""
        secured = self._cluster.secured
        client = ClusterClient(
            self._cluster.bootstrap_servers,
            client_id=CLIENT_ID,
            clock=SystemClock(),
            random=SystemRandom(),
            request_timeout_s=REFRESH_TIMEOUT_S,
            connect_timeout_s=REFRESH_TIMEOUT_S,
            security=PLAINTEXT if secured is None else secured.client_security,
        )
        async with client:
            while True:
                try:
                    self._overview = await take_overview(client, timeout_s=REFRESH_TIMEOUT_S)
                    self._was_up = True
                except ClientError:
                    self._overview = None
                await asyncio.sleep(REFRESH_S)

    def _restart_dead_brokers(self) -> None:
        for broker in self._cluster.brokers:
            restarts = self._restarts.get(broker.id)
            if restarts is not None and broker.exit_code not in (None, 0) and restarts.is_due():
                restarts.started()
                self._cluster.start_broker(broker)

    def _tend_console(self, screen: Screen) -> None:
        """Starts the console when a broker answers, and tells if it has ended."""
        console = self._cluster.console
        if console is None or self._console_ended:
            return
        if not console.is_started and self._was_up:
            self._cluster.start_console()
            screen.say("", {"event": "console", "url": console.url, "log": str(console.log)})
        elif console.is_started and not console.runs:
            self._console_ended = True
            screen.say(
                f"the console has ended; its log: {console.log}",
                {"event": "console", "state": DEAD, "log": str(console.log)},
            )

    def _cluster_view(self) -> ClusterView:
        joined = [self._joined_view(broker) for broker in self._joined_brokers()]
        self._cluster.write_state({broker.id: broker.address for broker in joined})
        return ClusterView(
            (*map(self._broker_view, self._cluster.brokers), *joined),
            self._overview,
            self._cluster.zookeeper_runs,
        )

    def _joined_brokers(self) -> list[BrokerInfo]:
        """The members that this command did not start, as the last answer listed them."""
        if self._overview is not None:
            own = {broker.id for broker in self._cluster.brokers}
            members = self._overview.cluster.brokers
            self._joined = {each.id: each for each in members if each.id not in own}
        return list(self._joined.values())

    def _joined_view(self, broker: BrokerInfo) -> BrokerView:
        overview = self._overview
        state = UNKNOWN if overview is None else FENCED if broker.fenced else ELSEWHERE
        load = overview.loads.get(broker.id) if overview is not None else None
        return BrokerView(
            broker.id,
            f"{broker.host}:{broker.port}",
            None,
            state,
            "",
            "",
            (),
            *((load.leads, load.replicas, load.out_of_sync) if load is not None else (0, 0, 0)),
            is_child=False,
        )

    def _broker_view(self, broker: LocalBroker) -> BrokerView:
        overview = self._overview
        known = overview.cluster.brokers if overview is not None else ()
        code = broker.exit_code
        live = any(each.id == broker.id and not each.fenced for each in known)
        state = state_of(
            runs=broker.runs,
            exit_code=code,
            live=live and not self._has_just_ended(broker),
            known=any(each.id == broker.id for each in known),
        )
        load = overview.loads.get(broker.id) if overview is not None else None
        ended = code is not None
        return BrokerView(
            broker.id,
            f"127.0.0.1:{broker.port}",
            broker.pid if broker.runs else None,
            state,
            how_it_ended(code) if code is not None else "",
            str(broker.log),
            tuple(broker.last_lines()) if ended else (),
            *((load.leads, load.replicas, load.out_of_sync) if load is not None else ()),
        )

    def _has_just_ended(self, broker: LocalBroker) -> bool:
        """Whether the broker ended so recently that the cluster may still list it as live."""
        if broker.runs:
            self._ended.pop(broker.id, None)
            return False
        now = time.monotonic()
        return now - self._ended.setdefault(broker.id, now) < NOTICED_S

    async def _stop_cluster(self, screen: Screen) -> None:
        """Stops one broker after the other, so that each can hand over its leaders.

        The controller is the last.
        """
        if self._cluster.console is not None:
            await asyncio.to_thread(self._cluster.console.stop)
        last = self._overview.controller if self._overview is not None else None
        order = sorted(self._cluster.brokers, key=lambda broker: (broker.id == last, broker.id))
        for broker in order:
            if not broker.runs:
                continue
            note = f"stopping broker {broker.id}; press Ctrl-C again to kill all brokers"
            screen.say(note, {"event": "stopping", "broker": broker.id})
            broker.ask_to_stop()
            await asyncio.to_thread(broker.wait_or_kill, STOP_S)
            screen.show(self._cluster_view())
        for id_ in sorted(running_brokers(self._cluster.folder)):
            screen.say(
                f"broker {id_} was started elsewhere and keeps running; stop it with headrace "
                f"cluster shutdown --broker {id_}",
                {"event": "left running", "broker": id_},
            )
        screen.say("stopping ZooKeeper", {"event": "stopping", "zookeeper": True})
        await asyncio.to_thread(self._cluster.stop_zookeeper)
        screen.say("stopped", {"event": "stopped"})


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


class _Restarts:
    """When to restart a broker that has died."""

    def __init__(self) -> None:
        self._pause_s = FIRST_RESTART_S
        self._last = time.monotonic()
        self._died: float | None = None

    def is_due(self) -> bool:
        now = time.monotonic()
        if self._died is None:
            self._died = now
            if now - self._last > STAYED_UP_S:
                self._pause_s = FIRST_RESTART_S
        return now - self._died >= self._pause_s

    def started(self) -> None:
        self._last = time.monotonic()
        self._died = None
        self._pause_s = min(MAX_RESTART_S, self._pause_s * 2)


def register(app: typer.Typer) -> None:
    app.command("up")(up)
