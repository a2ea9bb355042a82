"""`headrace cluster status`: a verdict first, then brokers, disks and replicas out of sync.

All facts come through Kafka's protocol, so the command works with any Kafka. Headrace brokers also
tell their connection to ZooKeeper, and since when each replica is out of sync.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from headrace.cli.cluster.broker_probe import ANSWER_S, BrokerReport, Reports, probe_brokers
from headrace.cli.cluster.health import Health, Verdict, assess
from headrace.cli.cluster.out_of_sync import (
    Adding,
    FirstSeen,
    OutOfSyncReplica,
    out_of_sync_replicas,
)
from headrace.cli.cluster.status import (
    Overview,
    broker_facts,
    partitions_under_min_isr,
    take_overview,
)
from headrace.cli.command import command
from headrace.cli.control_characters import escape_controls
from headrace.cli.error_messages import explain, usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.output import Block, Fields, Format, Table, is_live_terminal, text_of, write
from headrace.cli.session import Session
from headrace.cli.timestamps import iso_time
from headrace.cli.units import byte_size, duration
from headrace.client.admin.log_dirs import LogDirInfo
from headrace.client.admin.reassignments import list_reassignments
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import RenderableType

T = TypeVar("T")

SHOWN_REPLICAS: Final = 20
DEFAULT_INTERVAL_S: Final = 2.0
_LABELS: Final = {
    "CLUSTER": "cluster_id",
    "CONTROLLER": "controller",
    "METADATA STORE": "metadata_store",
    "BROKERS": "live_brokers",
    "TOPICS": "topics",
    "INTERNAL TOPICS": "internal_topics",
    "PARTITIONS": "partitions",
    "UNDER-REPLICATED": "under_replicated",
    "WITHOUT LEADER": "without_leader",
    "MOVING": "moving",
}
_STYLES: Final = {
    Verdict.HEALTHY: "green",
    Verdict.DEGRADED: "yellow",
    Verdict.UNAVAILABLE: "red",
}


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Everything that the command shows."""

    overview: Overview
    reports: Reports
    replicas: tuple[OutOfSyncReplica, ...]
    moving: int | None
    """None if the controller did not answer."""
    health: Health

    @property
    def facts(self) -> dict[str, object]:
        overview = self.overview
        return {
            "verdict": self.health.verdict.value,
            "reason": self.health.reason,
            "problems": [
                {"verdict": each.verdict.value, "text": each.text} for each in self.health.problems
            ],
            "cluster_id": overview.cluster.cluster_id,
            "controller": overview.controller,
            "metadata_store": store_summary(self.reports),
            "live_brokers": len(overview.cluster.live),
            "topics": sum(not topic.is_internal for topic in overview.topics),
            "internal_topics": sum(topic.is_internal for topic in overview.topics),
            "partitions": sum(len(topic.partitions) for topic in overview.topics),
            "under_replicated": len(overview.under_replicated),
            "without_leader": len(overview.without_leader),
            "moving": self.moving,
            "brokers": [
                {**facts, **_report_facts(self.reports.get(id_))}
                for id_, facts in zip(overview.loads, broker_facts(overview), strict=True)
            ],
            "out_of_sync": [replica_facts(each) for each in self.replicas],
        }

    def blocks(self) -> Iterator[Block]:
        facts = self.facts
        yield self.health.sentence
        yield Fields([(label, facts[key]) for label, key in _LABELS.items()])
        more = self.health.problems[2:]
        if more:
            yield "\n".join(["Also:", *(f"  {problem.text}" for problem in more)])
        yield _brokers_table(self.overview, self.reports)
        disks = _disks_table(self.reports)
        if disks.rows:
            yield disks
        if self.replicas:
            yield replicas_table(self.replicas[:SHOWN_REPLICAS], self.overview)
        if len(self.replicas) > SHOWN_REPLICAS:
            rest = len(self.replicas) - SHOWN_REPLICAS
            yield f"... and {rest:,} more: headrace cluster under-replicated"


async def take_status(client: ClusterClient, seen: FirstSeen, *, timeout_s: float) -> ClusterStatus:
    """The current state; a broker that hangs delays it by `ANSWER_S` at most."""
    overview = await take_overview(client, timeout_s=timeout_s)
    short_s = min(timeout_s, ANSWER_S)
    reports, adding, refusing = await asyncio.gather(
        probe_brokers(client, overview, timeout_s=timeout_s),
        _adding_replicas(client, timeout_s=short_s),
        _or_nothing(partitions_under_min_isr(client, overview, timeout_s=short_s)),
    )
    replicas = out_of_sync_replicas(overview, reports, adding or {})
    health = assess(overview, reports, under_min_isr=refusing or (), adding=adding or {})
    return ClusterStatus(
        overview,
        reports,
        tuple(seen.complete(replicas, time.monotonic())),
        None if adding is None else len(adding),
        health,
    )


async def explain_replicas(
    client: ClusterClient, overview: Overview, *, timeout_s: float
) -> list[OutOfSyncReplica]:
    """The replicas that are not in sync, with the reasons that brokers tell."""
    reports, adding = await asyncio.gather(
        probe_brokers(client, overview, timeout_s=timeout_s),
        _adding_replicas(client, timeout_s=min(timeout_s, ANSWER_S)),
    )
    return out_of_sync_replicas(overview, reports, adding or {})


async def _adding_replicas(client: ClusterClient, *, timeout_s: float) -> Adding | None:
    moves = await _or_nothing(list_reassignments(client, timeout_s=timeout_s))
    return None if moves is None else {each: move.adding for each, move in moves.items()}


async def _or_nothing(answer: Awaitable[T]) -> T | None:
    """The answer; None if the broker hangs, is too old for the request or refuses it."""
    try:
        return await answer
    except ClientError:
        return None


def store_summary(reports: Reports) -> str | None:
    """The metadata store as the brokers see it; None if no broker tells it."""
    told = {id_: report.store for id_, report in reports.items() if report.store is not None}
    if not told:
        return None
    kinds = {store.kind for store in told.values()}
    if kinds == {"file"}:
        return "file"
    lost = {id_: each.lost_s for id_, each in told.items() if each.lost_s is not None}
    if not lost:
        return "ZooKeeper, connected"
    named = ", ".join(f"broker {id_} for {duration(seconds)}" for id_, seconds in lost.items())
    return f"ZooKeeper, not connected: {named}"


def _report_facts(report: BrokerReport | None) -> dict[str, object]:
    if report is None:
        return {"answers": None, "problem": None, "metadata_store": None, "directories": []}
    store = report.store
    return {
        "answers": not report.failure,
        "problem": report.failure or report.refusal or None,
        "metadata_store": None
        if store is None
        else {"kind": store.kind, "connected": store.lost_s is None, "lost_s": store.lost_s},
        "directories": [_directory_facts(each) for each in report.directories],
    }


def _directory_facts(directory: LogDirInfo) -> dict[str, object]:
    known = directory.total_bytes > 0
    return {
        "path": directory.path,
        "error": None if directory.problem is None else directory.problem.code.name,
        "total_bytes": directory.total_bytes if known else None,
        "usable_bytes": directory.usable_bytes if known else None,
    }


def replica_facts(replica: OutOfSyncReplica) -> dict[str, object]:
    return {
        "topic": replica.partition.topic,
        "partition": replica.partition.partition,
        "broker": replica.broker,
        "reason": replica.reason,
        "lag": replica.lag,
        "lag_bytes": replica.lag_bytes,
        "out_of_sync_s": None if replica.age_s is None else round(replica.age_s, 3),
        "out_of_sync_is_minimum": replica.age_is_minimum,
    }


def _brokers_table(overview: Overview, reports: Reports) -> Table:
    headers = ("BROKER", "STATE", "HOST", "PORT", "RACK", "CONTROLLER")
    rows = []
    for facts in broker_facts(overview):
        report = reports.get(int(str(facts["id"])))
        if report is not None and report.failure:
            facts = {**facts, "state": "no answer"}
        rows.append(tuple(facts.values()))
    return Table((*headers, "LEADS", "REPLICAS", "OUT-OF-SYNC"), rows)


def _disks_table(reports: Reports) -> Table:
    rows = []
    for id_, report in reports.items():
        for each in report.directories:
            known = each.total_bytes > 0
            state = "online" if each.problem is None else each.problem.code.name
            rows.append(
                (
                    id_,
                    each.path,
                    state,
                    byte_size(each.total_bytes) if known else None,
                    byte_size(each.usable_bytes) if known else None,
                    f"{each.usable_bytes * 100 // each.total_bytes} %" if known else None,
                )
            )
    return Table(("BROKER", "DIRECTORY", "STATE", "DISK", "FREE", "FREE-%"), rows)


def replicas_table(replicas: Sequence[OutOfSyncReplica], overview: Overview) -> Table:
    """The replicas that are not in sync, each with its reason."""
    partitions = dict(overview.partitions())
    headers = ("TOPIC", "PARTITION", "LEADER", "ISR", "OUT-OF-SYNC", "REASON")
    return Table(
        (*headers, "RECORDS-BEHIND", "BYTES-BEHIND", "FOR"),
        [
            (
                *each.partition,
                partitions[each.partition].leader,
                partitions[each.partition].isr,
                each.broker,
                each.reason,
                each.lag,
                None if each.lag_bytes is None else byte_size(each.lag_bytes),
                _age_text(each),
            )
            for each in replicas
        ],
    )


def _age_text(replica: OutOfSyncReplica) -> str | None:
    if replica.age_s is None:
        return None
    least = "at least " if replica.age_is_minimum else ""
    return f"{least}{duration(replica.age_s)}"


def register(app: typer.Typer) -> None:
    """Adds `status`."""

    @command(app, "status")
    def status(
        session: Session,
        watch: Annotated[
            bool,
            typer.Option(
                "--watch",
                "-w",
                help="Show the state again and again, until Ctrl-C. In a pipe, print a line for "
                "each change; with --format json, an object each time.",
            ),
        ] = False,
        interval: Annotated[
            float,
            typer.Option(
                "--interval", metavar="SECONDS", min=0.1, help="With --watch: time between updates."
            ),
        ] = DEFAULT_INTERVAL_S,
    ) -> ExitCode:
        """Show whether the cluster is healthy, and if not, why. The exit code is the verdict.

        Exit code 0 means healthy, 6 degraded (all clients are served, but something has failed), 7
        unavailable (some clients fail), 5 that no broker can be reached.
        """
        if watch:
            session.run(lambda client: _Watch(session, interval).run(client))
            return ExitCode.OK

        async def work(client: ClusterClient) -> ClusterStatus:
            return await take_status(client, FirstSeen(), timeout_s=session.timeout_s)

        found = session.run(work)
        session.output.show(found.facts, *found.blocks())
        return found.health.verdict.exit_code


class _Watch:
    """Takes the status at an interval and shows it until it is cancelled."""

    def __init__(self, session: Session, interval_s: float) -> None:
        if session.output.form is Format.YAML:
            raise usage("--watch prints text or JSON, not YAML")
        self._session = session
        self._interval_s = interval_s
        self._seen = FirstSeen()

    async def run(self, client: ClusterClient) -> None:
        if self._session.output.form is Format.JSON:
            await self._repeat(client, _show_json)
        elif is_live_terminal():
            await self._redraw(client)
        else:
            await self._repeat(client, _LineOnChange())

    async def _repeat(
        self, client: ClusterClient, show: Callable[[ClusterStatus | str], None]
    ) -> None:
        while True:
            show(await self._take(client))
            await asyncio.sleep(self._interval_s)

    async def _take(self, client: ClusterClient) -> ClusterStatus | str:
        """The status, or why no broker told it."""
        timeout_s = min(self._session.timeout_s, 2 * ANSWER_S)
        try:
            return await take_status(client, self._seen, timeout_s=timeout_s)
        except ClientError as error:
            return str(explain(error))

    async def _redraw(self, client: ClusterClient) -> None:
        from rich.live import Live
        from rich.text import Text

        with Live(Text("..."), screen=True, auto_refresh=False) as live:

            def show(found: ClusterStatus | str) -> None:
                live.update(_screen(found), refresh=True)

            await self._repeat(client, show)


def _screen(found: ClusterStatus | str) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    now = iso_time(SystemClock().wall_ms())
    foot = Text(f"\n{now}  Ctrl-C ends.", style="dim")
    if isinstance(found, str):
        return Group(Text(f"unreachable: {escape_controls(found)}", "bold red"), foot)
    first, *blocks = found.blocks()
    shown = [Text(str(first), f"bold {_STYLES[found.health.verdict]}")]
    for block in blocks:
        text = f"\n{text_of(block)}".rstrip("\n")
        shown.append(Text(escape_controls(text), no_wrap=True, overflow="ellipsis"))
    return Group(*shown, foot)


def _show_json(found: ClusterStatus | str) -> None:
    facts: Mapping[str, object] = (
        {"verdict": "unreachable", "reason": found} if isinstance(found, str) else found.facts
    )
    now = iso_time(SystemClock().wall_ms())
    write(json.dumps({"time": now, **facts}, ensure_ascii=False) + "\n")
    sys.stdout.flush()


class _LineOnChange:
    """Prints a line whenever the verdict or its reason changes."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, found: ClusterStatus | str) -> None:
        said = f"unreachable: {found}" if isinstance(found, str) else found.health.sentence
        if said != self._last:
            write(f"{iso_time(SystemClock().wall_ms())}  {said}\n")
            sys.stdout.flush()
        self._last = said
