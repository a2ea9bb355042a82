"""`headrace group`: list, describe, move and delete consumer groups."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from headrace.cli import completion
from headrace.cli.command import command
from headrace.cli.confirmation import Execute
from headrace.cli.error_messages import not_found, refused
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.group.group_options import (
    OnlyTopics,
    Shift,
    States,
    To,
    ToFile,
    Topics,
    WithLag,
)
from headrace.cli.group.group_removal import (
    Filter,
    PlannedRemoval,
    delete_named,
    only_one,
    remove_planned,
)
from headrace.cli.group.seek import (
    PlannedMove,
    goal_of,
    move_group,
    partitions_named,
    plan_move,
)
from headrace.cli.options import GroupName, GroupNames
from headrace.cli.output import Block, Fields, Table, counted, report_silent
from headrace.cli.session import Session
from headrace.client.admin.groups import (
    SHARE,
    GroupDescription,
    ListedGroup,
    describe_group,
    list_groups,
)
from headrace.client.admin.offsets import (
    commit_offsets,
    committed_offsets,
    delete_offsets,
)
from headrace.client.broker_requests import Listing
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition
from headrace.operations.group_lag import (
    Lag,
    TotalLag,
    lags_of_group,
    lags_of_groups,
    total_lag,
)
from headrace.operations.group_moves import Positions
from headrace.protocol.errors import ErrorCode

LAG_HEADERS: Final = ("TOTAL LAG", "LAG (S)")

app = typer.Typer(help="List, describe, move and delete consumer groups.", no_args_is_help=True)


@command(app, "list")
def list_(session: Session, state: States = [], lag: WithLag = False) -> ExitCode:
    """List consumer groups."""
    return show_groups(session, _is_consumer_group, state, with_lag=lag)


def show_groups(
    session: Session, wanted: Filter, states: Sequence[str], *, with_lag: bool = False
) -> ExitCode:
    """Prints a table of the `wanted` groups in these states, and names the silent brokers."""
    chosen = {state.lower() for state in states}

    async def work(
        client: ClusterClient,
    ) -> tuple[Listing[ListedGroup], Mapping[str, TotalLag]]:
        listed = await list_groups(client, timeout_s=session.timeout_s)
        fitting = [
            group
            for group in listed.items
            if wanted(group) and (not chosen or group.state.lower() in chosen)
        ]
        shown = Listing(fitting, listed.failures)
        lags = await lags_of_groups(client, shown, session.timeout_s) if with_lag else {}
        return shown, lags

    shown, lags = session.run(work)
    facts: list[dict[str, object]] = []
    for group in shown.items:
        fact: dict[str, object] = {
            "group": group.group_id,
            "type": group.kind or None,
            "state": group.state or None,
            "coordinator": group.coordinator,
        }
        if with_lag:
            total = lags.get(group.group_id, TotalLag())
            fact |= {"total_lag": total.records, "lag_seconds": total.seconds}
        facts.append(fact)
    headers = ("GROUP", "TYPE", "STATE", "COORDINATOR", *(LAG_HEADERS if with_lag else ()))
    session.output.show(facts, Table(headers, [tuple(each.values()) for each in facts]))
    return report_silent(shown.failures, "groups")


@command(app, "describe")
def describe(session: Session, groups: GroupNames) -> ExitCode | None:
    """Show the state, members and lag of groups."""

    async def work(client: ClusterClient) -> list[tuple[GroupDescription, list[Lag]]]:
        return [await _describe_lag(client, group, session.timeout_s) for group in groups]

    found = session.run(work)
    facts = [_group_facts(group, lags) for group, lags in found]
    blocks: list[Block] = []
    for (group, lags), fact in zip(found, facts, strict=True):
        blocks.extend(_group_blocks(group, lags, fact["total_lag"], fact["lag_seconds"]))
    session.output.show(facts, *blocks)
    return None


async def _describe_lag(
    client: ClusterClient, name: str, timeout_s: float
) -> tuple[GroupDescription, list[Lag]]:
    group = await find_group(client, name, timeout_s)
    return group, await lags_of_group(client, group, timeout_s)


async def find_group(client: ClusterClient, name: str, timeout_s: float) -> GroupDescription:
    """The group. Raises `CommandFailed`, with a similar name, if it does not exist."""
    group = await describe_group(client, name, timeout_s=timeout_s)
    if isinstance(group, Refusal):
        elsewhere = "is a share group; use headrace share"
        raise await no_group(client, name, group, "group", _is_consumer_group, elsewhere, timeout_s)
    return group


def _is_consumer_group(group: ListedGroup) -> bool:
    return group.kind != SHARE


async def no_group(
    client: ClusterClient,
    name: str,
    why: Refusal,
    noun: str,
    wanted: Filter,
    elsewhere: str,
    timeout_s: float,
) -> CommandFailed:
    """The error for a group that the broker refuses, is of another kind or does not exist."""
    if why.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return refused(f"{noun} {name!r}", why)
    listed = (await list_groups(client, timeout_s=timeout_s)).items
    if any(each.group_id == name and not wanted(each) for each in listed):
        return CommandFailed(f"{name!r} {elsewhere}", ExitCode.NOT_FOUND)
    return not_found(noun, name, [each.group_id for each in listed if wanted(each)])


def _group_facts(group: GroupDescription, lags: Sequence[Lag]) -> dict[str, object]:
    total = total_lag([lag.found for lag in lags])
    return {
        "group": group.group_id,
        "type": group.kind,
        "state": group.state,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "total_lag": total.records,
        "lag_seconds": total.seconds,
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": [str(each) for each in member.partitions],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": lag.partition.topic,
                "partition": lag.partition.partition,
                "committed": lag.committed,
                "end": lag.end,
                "lag": lag.records,
                "lag_seconds": lag.seconds,
                "member": lag.member.member_id if lag.member else None,
                "client": lag.member.client_id if lag.member else None,
                "host": lag.member.host if lag.member else None,
            }
            for lag in lags
        ],
    }


def _group_blocks(
    group: GroupDescription, lags: Sequence[Lag], total: object, seconds: object
) -> list[Block]:
    fields = [
        ("GROUP", group.group_id),
        ("TYPE", group.kind),
        ("STATE", group.state),
        ("ASSIGNOR", group.assignor or None),
        ("MEMBERS", len(group.members)),
        ("TOTAL LAG", total),
        ("LAG (S)", seconds),
    ]
    headers = (
        *("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "LAG (S)"),
        *("MEMBER", "CLIENT", "HOST"),
    )
    rows = [
        (
            *lag.partition,
            lag.committed,
            lag.end,
            lag.records,
            lag.seconds,
            lag.member.member_id if lag.member else None,
            lag.member.client_id if lag.member else None,
            lag.member.host if lag.member else None,
        )
        for lag in lags
    ]
    blocks: list[Block] = [Fields(fields)]
    if rows:
        blocks.append(Table(headers, rows))
    idle = [member for member in group.members if not member.partitions]
    if idle:
        shown = [(member.member_id, member.client_id, member.host) for member in idle]
        blocks.append(Table(("IDLE MEMBER", "CLIENT", "HOST"), shown))
    return blocks


@command(app, "seek")
def seek(
    session: Session,
    group: GroupName,
    to: To = None,
    shift: Shift = None,
    to_group: Annotated[
        str | None,
        typer.Option(
            "--to-group",
            metavar="GROUP",
            help="Move to the position of another group.",
            autocompletion=completion.groups,
        ),
    ] = None,
    to_file: ToFile = None,
    topic: Topics = [],
    execute: Execute = False,
) -> ExitCode | None:
    """Move a group to other offsets.

    An offset outside a partition becomes the nearest one; the command says so.
    """
    goal = goal_of(to, shift, to_group, to_file)
    timeout_s = session.timeout_s

    async def plan(client: ClusterClient) -> PlannedMove:
        members = await _member_count(client, group, timeout_s)
        before = await _committed_positions(client, group, timeout_s)
        others: Positions = {}
        if to_group is not None:
            await find_group(client, to_group, timeout_s)
            others = await _committed_positions(client, to_group, timeout_s)
        targets = await plan_move(client, session, goal, topic, before, others)
        return PlannedMove(members, before, targets)

    return move_group(session, group, plan, commit_offsets, execute=execute)


async def _member_count(client: ClusterClient, group: str, timeout_s: float) -> int:
    """The number of members; 0 for a group that does not exist yet."""
    found = await describe_group(client, group, timeout_s=timeout_s)
    if isinstance(found, Refusal):
        if found.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return 0
        raise refused(f"group {group!r}", found)
    return len(found.members)


async def _committed_positions(client: ClusterClient, group: str, timeout_s: float) -> Positions:
    found = await committed_offsets(client, group, timeout_s=timeout_s)
    return {each: position.offset for each, position in found.items()}


@command(app, "delete")
def delete(
    session: Session,
    groups: GroupNames,
    topic: OnlyTopics = [],
    execute: Execute = False,
) -> ExitCode | None:
    """Delete groups without members, or with --topic only the offsets of these topics."""
    if not topic:
        return delete_named(session, groups, "group", execute, _is_consumer_group)
    group = only_one(groups)

    async def inspect(client: ClusterClient) -> dict[TopicPartition, int]:
        await find_group(client, group, session.timeout_s)
        partitions = await partitions_named(client, session, topic)
        held = await _committed_positions(client, group, session.timeout_s)
        wanted = {each: held[each] for each in partitions if each in held}
        if not wanted:
            raise not_found("offset of the group in", ", ".join(topic))
        return wanted

    held = session.run(inspect)
    facts = [
        {"name": str(each), "status": "would delete", "offset": at} for each, at in held.items()
    ]
    rows = [(*each, at) for each, at in held.items()]
    table = Table(("TOPIC", "PARTITION", "OFFSET TO DELETE"), rows)
    action = f"delete {counted(len(held), 'offset')} of group {group!r}"

    async def work(client: ClusterClient) -> dict[TopicPartition, Refusal | None]:
        return await delete_offsets(client, group, list(held), timeout_s=session.timeout_s)

    plan = PlannedRemoval(f"offset of {group} in", action, facts, table)
    return remove_planned(session, plan, work, execute=execute)
