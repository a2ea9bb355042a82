"""Deletes groups: consumer groups and share groups alike."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from headrace.cli.confirmation import is_approved
from headrace.cli.error_messages import missing, usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.output import Table, code_of, counted, remark, report
from headrace.cli.session import Session
from headrace.client.admin.groups import ListedGroup, delete_groups, list_groups
from headrace.client.broker_requests import Listing
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal
from headrace.protocol.errors import ErrorCode

T = TypeVar("T")

Filter: TypeAlias = Callable[[ListedGroup], bool]
"""Whether a group is of the kind that a command works on."""


def only_one(groups: Sequence[str]) -> str:
    """The group of a command with --topic, which takes exactly one."""
    if len(groups) != 1:
        raise usage("with --topic, give exactly one group")
    return groups[0]


class PlannedRemoval(NamedTuple):
    """A removal of offsets before its approval; `facts` and `table` show the same."""

    kind: str
    action: str
    facts: Sequence[Mapping[str, object]]
    table: Table


def remove_planned(
    session: Session,
    plan: PlannedRemoval,
    remove: Callable[[ClusterClient], Coroutine[object, object, Mapping[T, Refusal | None]]],
    *,
    execute: bool,
) -> ExitCode | None:
    """Shows the plan, asks for approval, removes the offsets and reports."""
    if not is_approved(session.output, execute, plan.action, plan.facts, plan.table):
        return None
    outcomes = {str(each): why for each, why in session.run(remove).items()}
    return report(session.output, plan.kind, "deleted", outcomes)


def delete_named(
    session: Session, groups: Sequence[str], kind: str, execute: bool, wanted: Filter
) -> ExitCode:
    """Deletes groups of the `wanted` kind, which `kind` names."""
    names = list(dict.fromkeys(groups))

    async def inspect(client: ClusterClient) -> Listing[ListedGroup]:
        return await list_groups(client, timeout_s=session.timeout_s)

    listed = session.run(inspect)
    known = [each.group_id for each in listed.items if wanted(each)]
    found = {each.group_id: each.state for each in listed.items if each.group_id in names}
    if listed.failures:  # a group that is not listed may exist
        found |= {name: "" for name in names if name not in found}
    facts = [
        {"name": name, "status": "would delete", "state": state or None}
        for name, state in found.items()
    ]
    table = Table((f"{kind.upper()} TO DELETE", "STATE"), [(e["name"], e["state"]) for e in facts])
    what = f"{kind} {names[0]}" if len(names) == 1 else counted(len(found), kind)
    action = f"delete {what} with all offsets"
    if found and not is_approved(session.output, execute, action, facts, table):
        absent = [name for name in names if name not in found]
        for name in absent:
            remark(missing(kind, name, known))
        gone = Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "no such group")
        return code_of(len(names), [gone] * len(absent))

    async def work(client: ClusterClient) -> dict[str, Refusal | None]:
        return await delete_groups(client, names, timeout_s=session.timeout_s)

    return report(session.output, kind, "deleted", session.run(work), known)
