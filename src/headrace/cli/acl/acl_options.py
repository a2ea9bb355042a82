"""Options that the commands of `headrace acl` share, and the resources that they name."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import typer

from headrace.cli import completion
from headrace.security.authorization.acl import CLUSTER_NAME, AclResourceType

RESOURCE_PANEL: Final = "Resources"
WHO_PANEL: Final = "Who and what"


class PatternOption(StrEnum):
    """How names match, when ACLs are searched."""

    ANY = "any"
    MATCH = "match"
    LITERAL = "literal"
    PREFIXED = "prefixed"


Topics = Annotated[
    list[str],
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC",
        help="Topic, or '*' for all; repeatable.",
        autocompletion=completion.topics,
        rich_help_panel=RESOURCE_PANEL,
    ),
]
Groups = Annotated[
    list[str],
    typer.Option(
        "--group",
        "-g",
        metavar="GROUP",
        help="Group of consumers, or '*' for all; repeatable.",
        autocompletion=completion.groups,
        rich_help_panel=RESOURCE_PANEL,
    ),
]
OnCluster = Annotated[
    bool,
    typer.Option("--cluster", help="The cluster itself.", rich_help_panel=RESOURCE_PANEL),
]
TransactionalIds = Annotated[
    list[str],
    typer.Option(
        "--transactional-id",
        metavar="ID",
        help="Transactional id of a producer, or '*' for all; repeatable.",
        autocompletion=completion.transactional_ids,
        rich_help_panel=RESOURCE_PANEL,
    ),
]
DelegationTokens = Annotated[
    list[str],
    typer.Option(
        "--delegation-token",
        metavar="ID",
        help="Delegation token, or '*' for all; repeatable.",
        rich_help_panel=RESOURCE_PANEL,
    ),
]
UserPrincipals = Annotated[
    list[str],
    typer.Option(
        "--user-principal",
        metavar="PRINCIPAL",
        help="User whose delegation tokens may be created or described; repeatable.",
        rich_help_panel=RESOURCE_PANEL,
    ),
]
Operations = Annotated[
    list[str],
    typer.Option(
        "--operation",
        metavar="OPERATION",
        help="Operation such as read, write or all; repeatable.",
        rich_help_panel=WHO_PANEL,
    ),
]
AllowPrincipals = Annotated[
    list[str],
    typer.Option(
        "--allow-principal",
        metavar="PRINCIPAL",
        help="Principal that is allowed, such as User:alice, or 'User:*' for everyone; repeatable.",
        rich_help_panel=WHO_PANEL,
    ),
]
DenyPrincipals = Annotated[
    list[str],
    typer.Option(
        "--deny-principal",
        metavar="PRINCIPAL",
        help="Principal that is denied, whatever else is allowed; repeatable.",
        rich_help_panel=WHO_PANEL,
    ),
]
Hosts = Annotated[
    list[str],
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="IP address of the client; repeatable.",
        show_default="any",
        rich_help_panel=WHO_PANEL,
    ),
]
Principals = Annotated[
    list[str],
    typer.Option(
        "--principal",
        metavar="PRINCIPAL",
        help="Principal, allowed or denied; repeatable.",
        rich_help_panel=WHO_PANEL,
    ),
]
Permission = Annotated[
    str | None,
    typer.Option(
        "--permission",
        metavar="allow|deny",
        help="Only ACLs that allow, or only ACLs that deny.",
        rich_help_panel=WHO_PANEL,
    ),
]
Pattern = Annotated[
    PatternOption,
    typer.Option(
        "--pattern",
        metavar="|".join(PatternOption),
        help="How a name matches; 'match' finds all ACLs that apply to a resource, also prefixed "
        "ones and '*'.",
        rich_help_panel=RESOURCE_PANEL,
    ),
]


class ResourceOptions(NamedTuple):
    """The resources that a command line names."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    cluster: bool = False
    transactional_ids: Sequence[str] = ()
    delegation_tokens: Sequence[str] = ()
    user_principals: Sequence[str] = ()

    def resources(self) -> Iterator[tuple[AclResourceType, str]]:
        """The type and the name of each."""
        for name in self.topics:
            yield AclResourceType.TOPIC, name
        for name in self.groups:
            yield AclResourceType.GROUP, name
        if self.cluster:
            yield AclResourceType.CLUSTER, CLUSTER_NAME
        for name in self.transactional_ids:
            yield AclResourceType.TRANSACTIONAL_ID, name
        for name in self.delegation_tokens:
            yield AclResourceType.DELEGATION_TOKEN, name
        for name in self.user_principals:
            yield AclResourceType.USER, name
