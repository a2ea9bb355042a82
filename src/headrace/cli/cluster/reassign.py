"""`headrace cluster reassign`: plan, execute, watch and cancel moves of partitions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import completion
from headrace.cli.byte_rates import parse_byte_rate
from headrace.cli.cluster.reassign_execution import PlanView, ReassignJob
from headrace.cli.cluster.reassign_plan import balanced, changes_of, parse_brokers
from headrace.cli.cluster.reassignment_file import Plan, read_plan, write_plan
from headrace.cli.cluster.status import Overview, take_overview
from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import not_found, sentence, usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.output import Table, code_of, counted, remark, report
from headrace.cli.session import Session, find_topics
from headrace.client.admin.brokers import describe_cluster
from headrace.client.admin.configs import Resource
from headrace.client.admin.reassignments import Move, alter_reassignments, list_reassignments
from headrace.client.admin.throttles import clear_throttle, find_throttled
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition
from headrace.operations.reassignment_plan import PlannedMove, placement_of
from headrace.operations.reassignment_progress import copied, leaders_of

Topics = Annotated[
    list[str],
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="Move only this topic; repeatable.",
        autocompletion=completion.topics,
        show_default="all",
    ),
]


def register(app: typer.Typer) -> None:
    command(app, "reassign")(reassign)


def reassign(
    session: Session,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="1,2,4-6",
            help="Brokers to spread partitions over.",
            show_default="all live brokers",
        ),
    ] = None,
    topic: Topics = [],
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Use the plan in this file, in the format of kafka-reassign-partitions.",
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the plan to a file.")
    ] = None,
    save_current: Annotated[
        Path | None,
        typer.Option(
            "--save-current", metavar="FILE", help="Write a plan that reverses the move to a file."
        ),
    ] = None,
    execute: Execute = False,
    throttle: Annotated[
        str | None,
        typer.Option(
            "--throttle",
            metavar="RATE",
            help="Copy at most this many bytes per second on each broker, such as 50M.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until all partitions have moved.")
    ] = True,
    status: Annotated[bool, typer.Option("--status", help="Show the progress of moves.")] = False,
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="Cancel moves; partitions return to their former brokers."),
    ] = False,
    unthrottle: Annotated[
        bool, typer.Option("--unthrottle", help="Remove the limits of --throttle.")
    ] = False,
) -> ExitCode | None:
    """Move partitions to other brokers.

    Without --plan, the command spreads the partitions evenly over the brokers.
    """
    if sum((status, cancel, unthrottle)) > 1:
        raise usage("choose one of --status, --cancel and --unthrottle")
    if execute and (status or unthrottle):
        raise usage("--status and --unthrottle do not take --execute")
    if plan is not None and (to is not None or topic):
        raise usage("--plan excludes --to and --topic: the plan selects brokers and topics")
    if status:
        _show_moves(session, topic)
        return None
    if unthrottle:
        return _remove_throttles(session)
    if cancel:
        return _cancel_moves(session, topic, execute)
    rate = None if throttle is None else parse_byte_rate(throttle, "--throttle")
    brokers = parse_brokers(to)
    read = None if plan is None else read_plan(plan)
    job = ReassignJob(session, rate, wait)

    async def inspect(client: ClusterClient) -> tuple[list[PlannedMove], PlanView]:
        overview = await take_overview(client, timeout_s=session.timeout_s)
        under_way = await list_reassignments(client, timeout_s=session.timeout_s)
        chosen = _limit_to_topics(overview, topic)
        now = placement_of(overview.topics, under_way)
        if read is not None:
            _refuse_unknown_brokers(read, overview)
        wanted = read if read is not None else balanced(chosen, under_way, brokers)
        changes = changes_of(now, wanted)
        if save is not None:
            write_plan(save, {each.partition: each.after for each in changes})
        if save_current is not None:
            write_plan(save_current, {each.partition: each.before for each in changes})
        if execute:
            _refuse_overlap(changes, under_way)
        return changes, await job.describe(client, overview, now, changes)

    changes, view = session.run(inspect)
    if execute or not changes:
        session.output.show(view.facts(executed=execute and bool(changes)), *view.blocks)
    elif not is_approved(
        session.output,
        execute,
        f"move {counted(len(changes), 'partition')}",
        view.facts(executed=False),
        *view.blocks,
    ):
        return None
    if not changes:
        return None

    async def work(client: ClusterClient) -> ExitCode:
        _refuse_overlap(changes, await list_reassignments(client, timeout_s=session.timeout_s))
        return await job.carry_out(client, changes)

    try:
        return session.run(work)
    except KeyboardInterrupt:
        if job.begun:
            job.remark_still_moving()
        raise


def _limit_to_topics(overview: Overview, names: Sequence[str]) -> Overview:
    known = {topic.name: topic for topic in overview.topics}
    for name in names:
        if name not in known:
            raise not_found("topic", name, known)
    topics = tuple(known[name] for name in names) if names else overview.topics
    return Overview(overview.cluster, topics)


def _refuse_unknown_brokers(plan: Plan, overview: Overview) -> None:
    """Raises `CommandFailed` if the plan names a broker that the cluster does not know."""
    known = overview.loads
    for broker in dict.fromkeys(broker for replicas in plan.values() for broker in replicas):
        if broker not in known:
            there_are = ", ".join(map(str, known))
            raise CommandFailed(
                f"the plan names broker {broker}, which the cluster does not know (known: "
                f"{there_are})",
                ExitCode.NOT_FOUND,
            )


def _refuse_overlap(
    changes: Sequence[PlannedMove], under_way: Mapping[TopicPartition, Move]
) -> None:
    moving = [each.partition for each in changes if each.partition in under_way]
    if moving:
        are = "is" if len(moving) == 1 else "are"
        raise CommandFailed(
            f"{counted(len(moving), 'partition')} of the plan {are} already moving, such as "
            f"{moving[0]}; "
            "wait for the move (--status) or cancel it (--cancel)"
        )


def _show_moves(session: Session, topics: Sequence[str]) -> None:
    async def work(client: ClusterClient) -> list[dict[str, object]]:
        moves = await _moves_of_topics(client, session, topics)
        await client.refresh(sorted({each.topic for each in moves}), timeout_s=session.timeout_s)
        leaders = leaders_of(client, moves)
        adding = {each: move.adding for each, move in moves.items()}
        progress = await copied(client, adding, leaders, timeout_s=session.timeout_s)
        return [
            {
                "topic": each.topic,
                "partition": each.partition,
                "replicas": list(move.replicas),
                "adding": list(move.adding),
                "removing": list(move.removing),
                "bytes_copied": progress[each].bytes,
                "bytes": progress[each].of,
                "percent": progress[each].percent,
            }
            for each, move in sorted(moves.items())
        ]

    facts = session.run(work)
    headers = ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING", "COPIED", "OF", "%")
    rows = [tuple(each.values()) for each in facts]
    session.output.show(facts, Table(headers, rows) if rows else "nothing is moving")


async def _moves_of_topics(
    client: ClusterClient, session: Session, topics: Sequence[str]
) -> dict[TopicPartition, Move]:
    await find_topics(client, topics, timeout_s=session.timeout_s)
    moves = await list_reassignments(client, timeout_s=session.timeout_s)
    return {each: move for each, move in moves.items() if not topics or each.topic in topics}


def _cancel_moves(session: Session, topics: Sequence[str], execute: bool) -> ExitCode:
    async def inspect(client: ClusterClient) -> dict[TopicPartition, Move]:
        return await _moves_of_topics(client, session, topics)

    moves = session.run(inspect)
    plan = [
        {"topic": each.topic, "partition": each.partition, "status": "would cancel"}
        for each in sorted(moves)
    ]
    table = Table(("TOPIC", "PARTITION TO RETURN"), sorted(moves))
    action = f"cancel the move of {counted(len(moves), 'partition')}"
    if moves and not is_approved(session.output, execute, action, plan, table):
        return ExitCode.OK

    async def work(client: ClusterClient) -> dict[TopicPartition, Refusal | None]:
        done = await alter_reassignments(client, dict.fromkeys(moves), timeout_s=session.timeout_s)
        brokers = {broker for move in moves.values() for broker in move.replicas}
        names = {each.topic for each in moves}
        # Metadata also lists brokers that have just died.
        cluster = await describe_cluster(client, timeout_s=session.timeout_s)
        live = sorted(brokers & {broker.id for broker in cluster.live})
        await clear_throttle(client, live, sorted(names), timeout_s=session.timeout_s)
        return done

    outcomes = session.run(work) if moves else {}
    cancelled = sorted(each for each, why in outcomes.items() if why is None)
    failed = {each: why for each, why in outcomes.items() if why is not None}
    facts = [
        {"topic": each.topic, "partition": each.partition, "status": "cancelled"}
        for each in cancelled
    ]
    said = "\n".join(f"cancelled the move of {each}" for each in cancelled)
    session.output.show(facts, said or "nothing is moving")
    for each, why in failed.items():
        remark(f"{each}: {sentence(why)}")
    return code_of(len(outcomes), list(failed.values()))


def _remove_throttles(session: Session) -> ExitCode:
    async def work(client: ClusterClient) -> dict[Resource, Refusal | None]:
        overview = await take_overview(client, timeout_s=session.timeout_s)
        brokers, topics = await find_throttled(
            client,
            [broker.id for broker in overview.cluster.live],
            [topic.name for topic in overview.topics],
            timeout_s=session.timeout_s,
        )
        return await clear_throttle(client, brokers, topics, timeout_s=session.timeout_s)

    done = {f"{each.kind.name.lower()} {each.name}": why for each, why in session.run(work).items()}
    if not done:
        session.output.show([], "no limit is set")
        return ExitCode.OK
    return report(session.output, "the limit of", "removed", done)
