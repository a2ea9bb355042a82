"""`headrace cluster`: status, brokers, leaders, elections, and clusters on this machine."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from headrace.cli.cluster import cluster_status, reassign, shutdown, unregister, up
from headrace.cli.cluster.cluster_status import explain_replicas, replica_facts, replicas_table
from headrace.cli.cluster.out_of_sync import OutOfSyncReplica
from headrace.cli.cluster.status import (
    Overview,
    broker_facts,
    partitions_under_min_isr,
    take_overview,
)
from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import not_found, sentence, usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.options import OnlyPartitions, OptionalTopicNames
from headrace.cli.output import Table, code_of, remark
from headrace.cli.session import Session, parse_partitions, partitions_of
from headrace.client.admin.elections import ElectionType, elect_leaders
from headrace.client.client import ClusterClient
from headrace.client.metadata import PartitionInfo
from headrace.client.network.retry import Deadline
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock
from headrace.protocol.errors import ErrorCode

app = typer.Typer(
    help="Show and manage a cluster, or start one on this machine.", no_args_is_help=True
)

POLL_S: Final = 0.5
_NOT_NEEDED: Final = "no election was needed"
_NONE_ELECTED: Final = "no leader was elected"

cluster_status.register(app)


def brokers_table(overview: Overview) -> Table:
    """The table of brokers."""
    headers = ("BROKER", "STATE", "HOST", "PORT", "RACK", "CONTROLLER")
    rows = [tuple(each.values()) for each in broker_facts(overview)]
    return Table((*headers, "LEADS", "REPLICAS", "OUT-OF-SYNC"), rows)


@command(app, "brokers")
def brokers(session: Session) -> None:
    """List the brokers with their addresses and load."""

    async def work(client: ClusterClient) -> Overview:
        return await take_overview(client, timeout_s=session.timeout_s)

    overview = session.run(work)
    session.output.show(broker_facts(overview), brokers_table(overview))


@command(app, "controller")
def controller(session: Session) -> None:
    """Show which broker is the controller."""

    async def work(client: ClusterClient) -> Overview:
        return await take_overview(client, timeout_s=session.timeout_s)

    overview = session.run(work)
    found = next((b for b in overview.cluster.brokers if b.id == overview.controller), None)
    if found is None:
        raise CommandFailed(
            "the cluster has no controller at the moment; is its metadata store reachable?"
        )
    facts = {"controller": found.id, "host": found.host, "port": found.port, "rack": found.rack}
    session.output.show(facts, f"{found.id} at {found.host}:{found.port}")


@command(app, "leaders")
def leaders(session: Session, topics: OptionalTopicNames = None) -> None:
    """Show how many partitions each broker leads, and which lack their preferred leader."""

    async def work(client: ClusterClient) -> Overview:
        return await _overview_of(client, session, topics)

    overview = session.run(work)
    by_broker = [
        {"id": id_, "leads": load.leads, "preferred": load.preferred}
        for id_, load in overview.loads.items()
    ]
    facts = {
        "brokers": by_broker,
        "partitions": [
            {**_partition_facts(each, info), "preferred": info.replicas[0]}
            for each, info in overview.partitions()
            if info.replicas
        ],
    }
    elsewhere = [
        (*each, info.leader, info.replicas[0], info.isr)
        for each, info in overview.not_preferred.items()
    ]
    blocks: list[Table | str] = [
        Table(("BROKER", "LEADS", "PREFERRED"), [tuple(each.values()) for each in by_broker])
    ]
    if elsewhere:
        headers = ("TOPIC", "PARTITION", "LEADER", "PREFERRED", "ISR")
        blocks.append(Table(headers, elsewhere))
        blocks.append("headrace cluster elect makes their preferred replicas lead again.")
    session.output.show(facts, *blocks)


async def _overview_of(
    client: ClusterClient, session: Session, topics: Sequence[str] | None
) -> Overview:
    overview = await take_overview(client, timeout_s=session.timeout_s)
    if not topics:
        return overview
    known = {topic.name: topic for topic in overview.topics}
    for name in topics:
        if name not in known:
            raise not_found("topic", name, known)
    return Overview(overview.cluster, tuple(known[name] for name in dict.fromkeys(topics)))


def _partition_facts(each: TopicPartition, info: PartitionInfo) -> dict[str, object]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "leader": info.leader,
        "epoch": info.leader_epoch,
        "replicas": list(info.replicas),
        "isr": list(info.isr),
    }


@command(app, "under-replicated")
def under_replicated(
    session: Session,
    topics: OptionalTopicNames = None,
    under_min_isr: Annotated[
        bool,
        typer.Option(
            "--under-min-isr",
            help="List only partitions with fewer in-sync replicas than min.insync.replicas; "
            "they refuse writes with acks=all.",
        ),
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0.0,
            help="Wait until all replicas are in sync; after this time, exit with code 1.",
            show_default=False,
        ),
    ] = None,
) -> ExitCode | None:
    """List partitions with replicas that are not in sync."""

    async def find(client: ClusterClient) -> Overview:
        overview = await _overview_of(client, session, topics)
        if under_min_isr:
            wanted = await partitions_under_min_isr(client, overview, timeout_s=session.timeout_s)
            overview = overview.only(wanted)
        return overview

    async def work(client: ClusterClient) -> tuple[Overview, list[OutOfSyncReplica]]:
        deadline = Deadline(SystemClock(), wait or 0.0)
        while True:
            overview = await find(client)
            if not overview.under_replicated:
                return overview, []
            if not deadline.remaining_s():
                return overview, await explain_replicas(
                    client, overview, timeout_s=session.timeout_s
                )
            await asyncio.sleep(min(POLL_S, deadline.remaining_s()))

    overview, replicas = session.run(work)
    found = overview.under_replicated
    facts = [
        {
            **_partition_facts(each, info),
            "missing": sorted(set(info.replicas) - set(info.isr)),
            "out_of_sync": [replica_facts(of) for of in replicas if of.partition == each],
        }
        for each, info in found.items()
    ]
    session.output.show(facts, replicas_table(replicas, overview) if replicas else "none")
    return ExitCode.ERROR if wait is not None and found else None


@command(app, "elect")
def elect(
    session: Session,
    topics: OptionalTopicNames = None,
    partitions: OnlyPartitions = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Let any live replica lead partitions without an in-sync replica. "
            "Records may be lost.",
        ),
    ] = False,
    execute: Execute = False,
) -> ExitCode | None:
    """Elect the preferred (first) replica of each partition as leader, if it is in sync."""
    chosen = parse_partitions(partitions)
    if chosen is not None and not topics:
        raise usage("--partitions needs a topic: name the topic too")
    election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    if unclean and not _approve_unclean(session, topics, chosen, execute):
        return None

    async def work(client: ClusterClient) -> dict[TopicPartition, Refusal | None]:
        # The controller is the one that this view names, not that of any broker.
        overview = await _overview_of(client, session, topics)
        wanted = None
        if topics:
            wanted = [each for topic in overview.topics for each in partitions_of(topic, chosen)]
        return await elect_leaders(client, election, wanted, timeout_s=session.timeout_s)

    return _report_election(session, session.run(work))


def _approve_unclean(
    session: Session, topics: Sequence[str] | None, chosen: Sequence[int] | None, execute: bool
) -> bool:
    """Whether to hold an unclean election, which may lose records. Shows its partitions."""

    async def inspect(client: ClusterClient) -> Overview:
        return await _overview_of(client, session, topics)

    without = {
        each: info
        for each, info in session.run(inspect).without_leader.items()
        if chosen is None or each.partition in chosen
    }
    facts = [
        {**_partition_facts(each, info), "status": "would elect"} for each, info in without.items()
    ]
    rows = [(*each, info.replicas, info.isr) for each, info in without.items()]
    table = Table(("TOPIC", "PARTITION WITHOUT LEADER", "REPLICAS", "ISR"), rows)
    plan = table if rows else "no partition is without a leader"
    action = "elect leaders that are not in sync, and lose the records that they lack"
    return is_approved(session.output, execute, action, facts, plan)


def _report_election(
    session: Session, outcomes: Mapping[TopicPartition, Refusal | None]
) -> ExitCode:
    needless = {
        each
        for each, why in outcomes.items()
        if why is not None and why.code is ErrorCode.ELECTION_NOT_NEEDED
    }
    failed = {
        each: why for each, why in outcomes.items() if why is not None and each not in needless
    }
    elected = sorted(each for each, why in outcomes.items() if why is None)
    facts = [{"topic": e.topic, "partition": e.partition, "status": "elected"} for e in elected]
    facts += [
        {"topic": e.topic, "partition": e.partition, "status": "not needed"}
        for e in sorted(needless)
    ]
    facts += [
        {
            "topic": each.topic,
            "partition": each.partition,
            "status": "failed",
            "error": why.code.name,
            "message": why.message,
        }
        for each, why in sorted(failed.items(), key=lambda item: item[0])
    ]
    said = "\n".join(f"elected a leader for {each}" for each in elected)
    session.output.show(facts, said or (_NONE_ELECTED if failed else _NOT_NEEDED))
    for each, why in failed.items():
        remark(f"{each}: {sentence(why)}")
    return code_of(len(elected) + len(failed), list(failed.values()))


unregister.register(app)
reassign.register(app)
up.register(app)
shutdown.register(app)
