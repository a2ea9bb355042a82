"""`headrace acl check`: whether a principal may do something, and which rule decides.

The command asks the cluster for the ACLs of the resource and decides with the broker's own
authorizer. A client cannot see which principals are super users.
"""

from typing import Annotated, Final

import typer

from headrace.cli.acl.acl_words import (
    check_operation,
    facts_of,
    parse_host,
    parse_operation,
    parse_principal_word,
    parse_resource,
)
from headrace.cli.command import command
from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.output import Fields, counted, remark
from headrace.cli.session import Session
from headrace.client.admin.acls import list_acls
from headrace.client.client import ClusterClient
from headrace.operations.acl_text import rule_of, word_of
from headrace.security.authorization.acl import ANY_HOST, Acl, AclOperation, PatternType
from headrace.security.authorization.acl_filter import AclFilter
from headrace.security.authorization.acl_index import AclIndex
from headrace.security.authorization.authorizer import Authorizer, Decision, Reason
from headrace.security.principal import WILDCARD, Principal, parse_principal

_SUPER_USERS: Final = "super users are not visible here: brokers allow them everything"
_OPEN: Final = (
    "if the brokers have allow.everyone.if.no.acl.found=true, resources without ACLs are open"
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "check")(check)


def check(
    session: Session,
    principal: Annotated[
        str, typer.Argument(metavar="PRINCIPAL", help="Principal such as User:alice.")
    ],
    operation: Annotated[
        str, typer.Argument(metavar="OPERATION", help="Operation such as read or write.")
    ],
    resource: Annotated[
        str, typer.Argument(metavar="RESOURCE", help="Resource such as topic:orders or cluster.")
    ],
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="IP address of the client.",
            show_default="none: only ACLs for all hosts count",
        ),
    ] = ANY_HOST,
) -> ExitCode:
    """Show whether a principal may do something, and the ACL that decides.

    The exit code is 0 if it is allowed and 1 if it is denied.
    """
    who = parse_principal(parse_principal_word(principal))
    wanted = parse_operation(operation)
    if wanted is AclOperation.ALL:
        raise usage("check one operation at a time")
    type_, name = parse_resource(resource)
    check_operation(wanted, type_)
    address = parse_host(host)

    async def work(client: ClusterClient) -> list[Acl]:
        applying = AclFilter(type_, name, PatternType.MATCH)
        return await list_acls(client, applying, timeout_s=session.timeout_s)

    acls = session.run(work)
    decision = Authorizer(AclIndex(acls)).decide(who, address, wanted, type_, name)
    word = "allowed" if decision.allowed else "denied"
    facts = {
        "principal": str(who),
        "operation": word_of(wanted),
        "resource_type": word_of(type_),
        "resource_name": name,
        "host": address,
        "allowed": decision.allowed,
        "reason": decision.reason.value,
        "acl": None if decision.acl is None else facts_of(decision.acl),
    }
    rows = [
        ("DECISION", word),
        ("REASON", decision.reason.value),
        ("ACL", None if decision.acl is None else rule_of(decision.acl)),
    ]
    session.output.show(facts, Fields(rows))
    _explain_limits(decision, acls, who, address)
    return ExitCode.OK if decision.allowed else ExitCode.ERROR


def _explain_limits(decision: Decision, acls: list[Acl], who: Principal, host: str) -> None:
    """What the decision does not take into account."""
    if not decision.allowed:
        remark(_SUPER_USERS)
    if decision.reason is Reason.NO_ACL_ON_RESOURCE:
        remark(_OPEN)
    other_hosts = [
        acl for acl in acls if acl.principal in (str(who), str(WILDCARD)) and acl.host != ANY_HOST
    ]
    if host == ANY_HOST and other_hosts:
        count = counted(len(other_hosts), "ACL")
        remark(f"{count} for single hosts may decide otherwise; give --host to include them")
