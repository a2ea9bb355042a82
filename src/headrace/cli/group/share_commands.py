"""`headrace share`: list, describe, move and delete share groups (queues)."""

import typer

from headrace.cli.command import command
from headrace.cli.confirmation import Execute
from headrace.cli.exit_codes import ExitCode
from headrace.cli.group.group_commands import no_group, show_groups
from headrace.cli.group.group_options import OnlyTopics, Shift, States, To, ToFile, Topics
from headrace.cli.group.group_removal import PlannedRemoval, delete_named, only_one, remove_planned
from headrace.cli.group.seek import PlannedMove, goal_of, move_group, plan_move
from headrace.cli.group.share_facts import Positions, group_blocks, group_facts, known_or_none
from headrace.cli.options import ShareGroupName, ShareGroupNames
from headrace.cli.output import Table
from headrace.cli.session import Session
from headrace.client.admin.groups import SHARE, GroupDescription, ListedGroup
from headrace.client.admin.shares import (
    alter_share_offsets,
    delete_share_offsets,
    describe_share_group,
    share_offsets,
)
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal

app = typer.Typer(
    help="List, describe, move and delete share groups (queues).", no_args_is_help=True
)


@command(app, "list")
def list_(session: Session, state: States = []) -> ExitCode:
    """List share groups."""
    return show_groups(session, _is_share_group, state)


@command(app, "describe")
def describe(session: Session, groups: ShareGroupNames) -> None:
    """Show the state, members, start offsets, lag and locked records of share groups."""

    async def work(client: ClusterClient) -> list[tuple[GroupDescription, Positions]]:
        found: list[tuple[GroupDescription, Positions]] = []
        for name in groups:
            group = await _find_share_group(client, name, session.timeout_s)
            positions = await share_offsets(client, name, timeout_s=session.timeout_s, locks=True)
            found.append((group, positions))
        return found

    found = session.run(work)
    facts = [group_facts(group, positions) for group, positions in found]
    blocks = [block for group, positions in found for block in group_blocks(group, positions)]
    session.output.show(facts, *blocks)


async def _find_share_group(client: ClusterClient, name: str, timeout_s: float) -> GroupDescription:
    group = await describe_share_group(client, name, timeout_s=timeout_s)
    if isinstance(group, Refusal):
        elsewhere = "is not a share group; use headrace group"
        raise await no_group(
            client, name, group, "share group", _is_share_group, elsewhere, timeout_s
        )
    return group


def _is_share_group(group: ListedGroup) -> bool:
    return group.kind == SHARE


@command(app, "seek")
def seek(
    session: Session,
    group: ShareGroupName,
    to: To = None,
    shift: Shift = None,
    to_file: ToFile = None,
    topic: Topics = [],
    execute: Execute = False,
) -> ExitCode | None:
    """Move a share group to other offsets.

    An offset outside a partition becomes the nearest one; the command says so.
    """
    goal = goal_of(to, shift, None, to_file)
    timeout_s = session.timeout_s

    async def plan(client: ClusterClient) -> PlannedMove:
        found = await _find_share_group(client, group, timeout_s)
        positions = await share_offsets(client, group, timeout_s=timeout_s)
        current = {each: max(0, position.start_offset) for each, position in positions.items()}
        before = {each: current[each] for each in positions if positions[each].start_offset >= 0}
        targets = await plan_move(client, session, goal, topic, current, {})
        return PlannedMove(len(found.members), before, targets)

    return move_group(session, group, plan, alter_share_offsets, execute=execute)


@command(app, "delete")
def delete(
    session: Session,
    groups: ShareGroupNames,
    topic: OnlyTopics = [],
    execute: Execute = False,
) -> ExitCode | None:
    """Delete share groups without members, or with --topic only the state of these topics."""
    if not topic:
        return delete_named(session, groups, "share group", execute, _is_share_group)
    group = only_one(groups)

    async def inspect(client: ClusterClient) -> Positions:
        await _find_share_group(client, group, session.timeout_s)
        return await share_offsets(client, group, timeout_s=session.timeout_s)

    held = {each: at for each, at in session.run(inspect).items() if each.topic in topic}
    facts = [
        {
            "name": name,
            "status": "would delete",
            "partitions": [e.partition for e in held if e.topic == name],
        }
        for name in topic
    ]
    rows = [(*each, known_or_none(at.start_offset)) for each, at in sorted(held.items())]
    table = Table(("TOPIC", "PARTITION", "START TO DELETE"), rows)
    action = f"delete the state of share group {group!r} in {', '.join(topic)}"

    async def work(client: ClusterClient) -> dict[str, Refusal | None]:
        return await delete_share_offsets(client, group, topic, timeout_s=session.timeout_s)

    plan = PlannedRemoval(f"state of {group} in", action, facts, table)
    return remove_planned(session, plan, work, execute=execute)
