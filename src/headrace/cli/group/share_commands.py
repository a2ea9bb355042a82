"""`headrace share`: list, describe, move and delete share groups (queues)."""

from collections.abc import Mapping

import typer

from headrace.cli.command import command
from headrace.cli.confirmation import Execute
from headrace.cli.exit_codes import ExitCode
from headrace.cli.group.group_commands import no_group, show_groups
from headrace.cli.group.group_options import OnlyTopics, Shift, States, To, ToFile, Topics
from headrace.cli.group.group_removal import PlannedRemoval, delete_named, only_one, remove_planned
from headrace.cli.group.seek import PlannedMove, goal_of, move_group, plan_move
from headrace.cli.options import ShareGroupName, ShareGroupNames
from headrace.cli.output import Block, Fields, Table
from headrace.cli.session import Session
from headrace.client.admin.groups import SHARE, GroupDescription, ListedGroup
from headrace.client.admin.shares import (
    SharePosition,
    alter_share_offsets,
    delete_share_offsets,
    describe_share_group,
    share_offsets,
)
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition

app = typer.Typer(
    help="List, describe, move and delete share groups (queues).", no_args_is_help=True
)

Positions = Mapping[TopicPartition, SharePosition]


@command(app, "list")
def list_(session: Session, state: States = []) -> ExitCode:
    """List share groups."""
    return show_groups(session, _is_share_group, state)


@command(app, "describe")
def describe(session: Session, groups: ShareGroupNames) -> None:
    """Show the state, members, start offsets and lag of share groups."""

    async def work(client: ClusterClient) -> list[tuple[GroupDescription, Positions]]:
        found: list[tuple[GroupDescription, Positions]] = []
        for name in groups:
            group = await _find_share_group(client, name, session.timeout_s)
            found.append((group, await share_offsets(client, name, timeout_s=session.timeout_s)))
        return found

    found = session.run(work)
    facts = [
        {
            "group": group.group_id,
            "state": group.state,
            "epoch": group.epoch,
            "assignor": group.assignor or None,
            "members": [
                {
                    "member": member.member_id,
                    "client": member.client_id,
                    "host": member.host,
                    "partitions": [str(each) for each in member.partitions],
                }
                for member in group.members
            ],
            "partitions": [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "start_offset": _known_or_none(position.start_offset),
                    "lag": _known_or_none(position.lag),
                    "lag_seconds": _seconds(position),
                }
                for each, position in sorted(positions.items())
            ],
        }
        for group, positions in found
    ]
    blocks: list[Block] = []
    for group, positions in found:
        blocks.extend(_share_group_blocks(group, positions))
    session.output.show(facts, *blocks)


def _known_or_none(number: int) -> int | None:
    return None if number < 0 else number


def _seconds(position: SharePosition) -> float | None:
    return None if position.lag_ms < 0 else position.lag_ms / 1000


def _share_group_blocks(group: GroupDescription, positions: Positions) -> list[Block]:
    blocks: list[Block] = [
        Fields(
            [
                ("GROUP", group.group_id),
                ("STATE", group.state),
                ("EPOCH", group.epoch),
                ("MEMBERS", len(group.members)),
            ]
        )
    ]
    rows = [
        (
            *each,
            _known_or_none(position.start_offset),
            _known_or_none(position.lag),
            _seconds(position),
        )
        for each, position in sorted(positions.items())
    ]
    if rows:
        blocks.append(Table(("TOPIC", "PARTITION", "START", "LAG", "LAG (S)"), rows))
    if group.members:
        members = [
            (member.member_id, member.client_id, member.host, [str(p) for p in member.partitions])
            for member in group.members
        ]
        blocks.append(Table(("MEMBER", "CLIENT", "HOST", "PARTITIONS"), members))
    return blocks


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
    rows = [(*each, _known_or_none(at.start_offset)) for each, at in sorted(held.items())]
    table = Table(("TOPIC", "PARTITION", "START TO DELETE"), rows)
    action = f"delete the state of share group {group!r} in {', '.join(topic)}"

    async def work(client: ClusterClient) -> dict[str, Refusal | None]:
        return await delete_share_offsets(client, group, topic, timeout_s=session.timeout_s)

    plan = PlannedRemoval(f"state of {group} in", action, facts, table)
    return remove_planned(session, plan, work, execute=execute)
