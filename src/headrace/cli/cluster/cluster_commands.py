"""`headrace cluster`: status, brokers, leaders, elections, and clusters on this machine."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from headrace.cli.cluster import reassign, up
from headrace.cli.cluster.status import Overview, take_overview
from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import not_found, refused, sentence, usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.options import OnlyPartitions, OptionalTopicNames
from headrace.cli.output import Fields, Table, code_of, counted, remark
from headrace.cli.session import Session, find_topics, parse_partitions, partitions_of
from headrace.client.admin.brokers import unregister_broker
from headrace.client.admin.configs import Resource, ResourceKind, describe_configs
from headrace.client.admin.elections import ElectionType, elect_leaders
from headrace.client.admin.reassignments import list_reassignments
from headrace.client.client import ClusterClient
from headrace.client.errors import UnsupportedByBroker
from headrace.client.metadata import PartitionInfo
from headrace.client.network.retry import Deadline
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock
from headrace.protocol.errors import ErrorCode

app = typer.Typer(
    help="Show and manage a cluster, or start one on this machine.", no_args_is_help=True
)

POLL_S: Final = 0.5
MIN_ISR: Final = "min.insync.replicas"
_NOT_NEEDED: Final = "no election was needed"
_NONE_ELECTED: Final = "no leader was elected"


@command(app, "status")
def status(session: Session) -> None:
    """Show the cluster's id and health, and the load of its brokers."""

    async def work(client: ClusterClient) -> tuple[Overview, int | None]:
        overview = await take_overview(client, timeout_s=session.timeout_s)
        try:
            moving = await list_reassignments(client, timeout_s=session.timeout_s)
        except UnsupportedByBroker:  # before Kafka 2.4
            return overview, None
        return overview, len(moving)

    overview, moving = session.run(work)
    facts = status_facts(overview, moving)
    labels = {
        "CLUSTER": "cluster_id",
        "CONTROLLER": "controller",
        "BROKERS": "live_brokers",
        "TOPICS": "topics",
        "INTERNAL TOPICS": "internal_topics",
        "PARTITIONS": "partitions",
        "UNDER-REPLICATED": "under_replicated",
        "WITHOUT LEADER": "without_leader",
        "MOVING": "moving",
    }
    session.output.show(
        facts,
        Fields([(label, facts[key]) for label, key in labels.items()]),
        brokers_table(overview),
    )


def status_facts(overview: Overview, moving: int | None) -> dict[str, object]:
    """The numbers of a cluster. `moving` partitions are being reassigned; None if unknown."""
    return {
        "cluster_id": overview.cluster.cluster_id,
        "controller": overview.controller,
        "live_brokers": len(overview.cluster.live),
        "topics": sum(not topic.is_internal for topic in overview.topics),
        "internal_topics": sum(topic.is_internal for topic in overview.topics),
        "partitions": sum(len(topic.partitions) for topic in overview.topics),
        "under_replicated": len(overview.under_replicated),
        "without_leader": len(overview.without_leader),
        "moving": moving,
        "brokers": broker_facts(overview),
    }


def broker_facts(overview: Overview) -> list[dict[str, object]]:
    """One row per broker, including brokers that appear only as replicas."""
    known = {broker.id: broker for broker in overview.cluster.brokers}
    facts: list[dict[str, object]] = []
    for id_, load in overview.loads.items():
        broker = known.get(id_)
        facts.append(
            {
                "id": id_,
                "state": "down" if broker is None or broker.fenced else "up",
                "host": broker.host if broker and broker.host else None,
                "port": broker.port if broker and broker.port > 0 else None,
                "rack": broker.rack if broker else None,
                "controller": id_ == overview.controller,
                "leads": load.leads,
                "replicas": load.replicas,
                "out_of_sync": load.out_of_sync,
            }
        )
    return facts


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

    async def find(client: ClusterClient) -> dict[TopicPartition, PartitionInfo]:
        overview = await _overview_of(client, session, topics)
        found = dict(overview.under_replicated)
        if under_min_isr and found:
            least = await _min_isr(client, {each.topic for each in found}, session.timeout_s)
            found = {
                each: info
                for each, info in found.items()
                if len(info.isr) < min(least[each.topic], len(info.replicas))
            }
        return found

    async def work(client: ClusterClient) -> dict[TopicPartition, PartitionInfo]:
        deadline = Deadline(SystemClock(), wait or 0.0)
        while True:
            found = await find(client)
            if not found or not deadline.remaining_s():
                return found
            await asyncio.sleep(min(POLL_S, deadline.remaining_s()))

    found = session.run(work)
    missing = {each: sorted(set(info.replicas) - set(info.isr)) for each, info in found.items()}
    facts = [
        {**_partition_facts(each, info), "missing": missing[each]} for each, info in found.items()
    ]
    headers = ("TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "MISSING")
    rows = [
        (*each, info.leader, info.replicas, info.isr, missing[each]) for each, info in found.items()
    ]
    session.output.show(facts, Table(headers, rows) if rows else "none")
    return ExitCode.ERROR if wait is not None and found else None


async def _min_isr(client: ClusterClient, topics: set[str], timeout_s: float) -> dict[str, int]:
    wanted = [Resource(ResourceKind.TOPIC, name) for name in sorted(topics)]
    answers = await describe_configs(client, wanted, timeout_s=timeout_s, names=[MIN_ISR])
    least = {}
    for resource, entries in answers.items():
        if isinstance(entries, Refusal):
            raise refused(f"settings of {resource.name}", entries)
        least[resource.name] = next(int(e.value or 1) for e in entries if e.name == MIN_ISR)
    return least


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
        wanted = None
        if topics:
            found = await find_topics(client, topics, timeout_s=session.timeout_s)
            wanted = [each for topic in found for each in partitions_of(topic, chosen)]
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


@command(app, "unregister")
def unregister(
    session: Session,
    broker: Annotated[
        int, typer.Argument(metavar="BROKER", min=0, help="Id of the broker.", show_default=False)
    ],
    execute: Execute = False,
) -> None:
    """Remove the registration of a broker that will not return."""

    async def inspect(client: ClusterClient) -> Overview:
        return await take_overview(client, timeout_s=session.timeout_s)

    found = next((e for e in broker_facts(session.run(inspect)) if e["id"] == broker), None)
    replicas = 0 if found is None else found["replicas"]
    if replicas:
        remark(
            f"broker {broker} still has {counted(int(str(replicas)), 'replica')}; move them first "
            "with headrace cluster reassign, or their partitions stay under-replicated"
        )
    plan: dict[str, object] = {"broker": broker, "status": "would unregister", "replicas": replicas}
    fields = Fields(
        [("BROKER", broker), ("STATE", found and found["state"]), ("REPLICAS", replicas)]
    )
    if not is_approved(session.output, execute, f"unregister broker {broker}", plan, fields):
        return

    async def work(client: ClusterClient) -> Refusal | None:
        return await unregister_broker(client, broker, timeout_s=session.timeout_s)

    why = session.run(work)
    if why is not None:
        raise refused(f"broker {broker}", why)
    facts = {"broker": broker, "status": "unregistered"}
    session.output.show(facts, f"unregistered broker {broker}")


reassign.register(app)
up.register(app)
