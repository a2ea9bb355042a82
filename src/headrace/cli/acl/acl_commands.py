"""`headrace acl`: create, list, delete and check ACLs."""

from collections.abc import Sequence
from itertools import product
from typing import Annotated

import typer

from headrace.cli.acl import acl_check
from headrace.cli.acl.acl_creation import Principals as AclPrincipals
from headrace.cli.acl.acl_creation import Roles, acls_of
from headrace.cli.acl.acl_options import (
    RESOURCE_PANEL,
    WHO_PANEL,
    AllowPrincipals,
    DelegationTokens,
    DenyPrincipals,
    Groups,
    Hosts,
    OnCluster,
    Operations,
    Pattern,
    PatternOption,
    Permission,
    Principals,
    ResourceOptions,
    Topics,
    TransactionalIds,
    UserPrincipals,
)
from headrace.cli.acl.acl_words import (
    HEADERS,
    facts_of,
    parse_host,
    parse_operations,
    parse_permission,
    parse_principals,
    row_of,
)
from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import sentence, usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.output import Table, code_of, counted, remark
from headrace.cli.session import Session
from headrace.client.admin.acls import create_acls, delete_acls, list_acls
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal
from headrace.operations.acl_text import rule_of
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from headrace.security.authorization.acl_filter import AclFilter

app = typer.Typer(help="Create, list, delete and check ACLs.", no_args_is_help=True)


@command(app, "create")
def create(
    session: Session,
    allow_principal: AllowPrincipals = [],
    deny_principal: DenyPrincipals = [],
    operation: Operations = [],
    host: Hosts = [],
    topic: Topics = [],
    group: Groups = [],
    cluster: OnCluster = False,
    transactional_id: TransactionalIds = [],
    delegation_token: DelegationTokens = [],
    user_principal: UserPrincipals = [],
    prefixed: Annotated[
        bool,
        typer.Option(
            "--prefixed",
            help="For all names that begin with the given names.",
            rich_help_panel=RESOURCE_PANEL,
        ),
    ] = False,
    producer: Annotated[
        bool,
        typer.Option(
            "--producer",
            help="Allow what a producer needs: write, describe and create its topics; write and "
            "describe its transactional ids.",
            rich_help_panel=WHO_PANEL,
        ),
    ] = False,
    consumer: Annotated[
        bool,
        typer.Option(
            "--consumer",
            help="Allow what a consumer needs: read and describe its topics; read its groups.",
            rich_help_panel=WHO_PANEL,
        ),
    ] = False,
    idempotent: Annotated[
        bool,
        typer.Option(
            "--idempotent",
            help="With --producer: also allow idempotent-write on the cluster, which producers "
            "before Kafka 2.8 need.",
            rich_help_panel=WHO_PANEL,
        ),
    ] = False,
) -> ExitCode | None:
    """Create ACLs: one for each principal, operation, host and resource.

    A deny wins over every allow. An ACL that exists already is left as it is.
    """
    named = ResourceOptions(
        topic, group, cluster, transactional_id, delegation_token, user_principal
    )
    acls = acls_of(
        list(named.resources()),
        parse_operations(operation),
        AclPrincipals(
            parse_principals(allow_principal),
            parse_principals(deny_principal),
            [parse_host(each) for each in host],
        ),
        pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        roles=Roles(producer, consumer, idempotent),
    )

    async def work(client: ClusterClient) -> dict[Acl, Refusal | None]:
        return await create_acls(client, acls, timeout_s=session.timeout_s)

    return _report(session, "created", session.run(work))


@command(app, "list")
def list_(
    session: Session,
    principal: Principals = [],
    permission: Permission = None,
    operation: Operations = [],
    host: Hosts = [],
    topic: Topics = [],
    group: Groups = [],
    cluster: OnCluster = False,
    transactional_id: TransactionalIds = [],
    delegation_token: DelegationTokens = [],
    user_principal: UserPrincipals = [],
    pattern: Pattern = PatternOption.ANY,
) -> None:
    """List ACLs: all, or those that match every given option."""
    named = ResourceOptions(
        topic, group, cluster, transactional_id, delegation_token, user_principal
    )
    filters = _filters(named, principal, permission, operation, host, pattern)

    async def work(client: ClusterClient) -> list[Acl]:
        return await _find(client, filters, session.timeout_s)

    found = session.run(work)
    session.output.show([facts_of(acl) for acl in found], Table(HEADERS, list(map(row_of, found))))


@command(app, "delete")
def delete(
    session: Session,
    principal: Principals = [],
    permission: Permission = None,
    operation: Operations = [],
    host: Hosts = [],
    topic: Topics = [],
    group: Groups = [],
    cluster: OnCluster = False,
    transactional_id: TransactionalIds = [],
    delegation_token: DelegationTokens = [],
    user_principal: UserPrincipals = [],
    pattern: Pattern = PatternOption.ANY,
    every: Annotated[
        bool, typer.Option("--all", help="Delete every ACL; not with other conditions.")
    ] = False,
    execute: Execute = False,
) -> ExitCode | None:
    """Delete the ACLs that match every given option.

    The plan shows the ACLs, and exactly these are deleted.
    """
    named = ResourceOptions(
        topic, group, cluster, transactional_id, delegation_token, user_principal
    )
    filters = _filters(named, principal, permission, operation, host, pattern)
    has_conditions = filters != [AclFilter(pattern_type=filters[0].pattern_type)]
    if every == has_conditions:
        raise usage(
            "--all deletes every ACL: leave out the other conditions"
            if every
            else "say which ACLs to delete, for example with --principal or --topic; or --all"
        )

    async def inspect(client: ClusterClient) -> list[Acl]:
        return await _find(client, filters, session.timeout_s)

    found = session.run(inspect)
    if not found:
        remark("no ACL matches")
        session.output.show([])
        return ExitCode.NOT_FOUND
    plan = Table(HEADERS, list(map(row_of, found)))
    facts = [{**facts_of(acl), "status": "would delete"} for acl in found]
    action = f"delete {counted(len(found), 'ACL')}"
    if not is_approved(session.output, execute, action, facts, plan):
        return ExitCode.OK

    async def work(client: ClusterClient) -> dict[Acl, Refusal | None]:
        return await delete_acls(client, found, timeout_s=session.timeout_s)

    return _report(session, "deleted", session.run(work))


acl_check.register(app)


def _filters(
    named: ResourceOptions,
    principals: Sequence[str],
    permission: str | None,
    operations: Sequence[str],
    hosts: Sequence[str],
    pattern: PatternOption,
) -> list[AclFilter]:
    """A filter for each combination of values; a condition that is not given matches everything."""
    resources: list[tuple[AclResourceType, str | None]] = [*named.resources()]
    any_text: tuple[str | None, ...] = (None,)
    pattern_type = PatternType[pattern.name]
    allows_or_denies = AclPermission.ANY if permission is None else parse_permission(permission)
    return [
        AclFilter(type_, name, pattern_type, principal, host, operation, allows_or_denies)
        for (type_, name), principal, host, operation in product(
            resources or [(AclResourceType.ANY, None)],
            parse_principals(principals) or any_text,
            hosts or any_text,
            parse_operations(operations) or [AclOperation.ANY],
        )
    ]


async def _find(client: ClusterClient, filters: Sequence[AclFilter], timeout_s: float) -> list[Acl]:
    found: dict[Acl, None] = {}
    for each in filters:
        found |= dict.fromkeys(await list_acls(client, each, timeout_s=timeout_s))
    return sorted(found)


def _report(session: Session, done: str, outcomes: dict[Acl, Refusal | None]) -> ExitCode:
    """Prints the result of each ACL and returns the exit code for all of them."""
    failures = {acl: why for acl, why in outcomes.items() if why is not None}
    facts = [
        {**facts_of(acl), "status": done}
        if why is None
        else {**facts_of(acl), "status": "failed", "error": why.code.name, "message": why.message}
        for acl, why in outcomes.items()
    ]
    lines = [f"{done}: {rule_of(acl)}" for acl, why in outcomes.items() if why is None]
    session.output.show(facts, *(["\n".join(lines)] if lines else []))
    for acl, why in failures.items():
        remark(f"{rule_of(acl)}: {sentence(why)}")
    return code_of(len(outcomes), list(failures.values()))
