"""The ACLs that `headrace acl create` makes of its options. Pure.

The roles are those of Kafka's tool: a producer may write, describe and create its topics, and write
and describe its transactional ids; a consumer may read and describe its topics and read its groups.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headrace.cli.acl.acl_words import check_operation
from headrace.cli.error_messages import usage
from headrace.security.authorization.acl import (
    ANY_HOST,
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)

_TOPIC: Final = AclResourceType.TOPIC
_GROUP: Final = AclResourceType.GROUP
_TRANSACTIONAL_ID: Final = AclResourceType.TRANSACTIONAL_ID
_READ, _WRITE = AclOperation.READ, AclOperation.WRITE
_DESCRIBE: Final = AclOperation.DESCRIBE

_PRODUCER: Final = {
    _TOPIC: (_WRITE, _DESCRIBE, AclOperation.CREATE),
    _TRANSACTIONAL_ID: (_WRITE, _DESCRIBE),
}
_CONSUMER: Final = {_TOPIC: (_READ, _DESCRIBE), _GROUP: (_READ,)}

Resource = tuple[AclResourceType, str]


class Principals(NamedTuple):
    """Who is allowed and who is denied, from which hosts."""

    allowed: Sequence[str]
    denied: Sequence[str]
    hosts: Sequence[str] = ()

    def rules(self) -> Iterator[tuple[str, str, AclPermission]]:
        """The principal, host and permission of each ACL."""
        for permission, principals in (
            (AclPermission.ALLOW, self.allowed),
            (AclPermission.DENY, self.denied),
        ):
            for principal in principals:
                for host in self.hosts or (ANY_HOST,):
                    yield principal, host, permission


class Roles(NamedTuple):
    """Sets of operations with a name."""

    producer: bool = False
    consumer: bool = False
    idempotent: bool = False


def acls_of(
    resources: Sequence[Resource],
    operations: Sequence[AclOperation],
    principals: Principals,
    *,
    pattern_type: PatternType = PatternType.LITERAL,
    roles: Roles = Roles(),  # noqa: B008  # immutable
) -> list[Acl]:
    """The ACLs; raises `CommandFailed` if the options do not fit together."""
    if not (principals.allowed or principals.denied):
        raise usage("give --allow-principal or --deny-principal, such as User:alice")
    if roles.producer or roles.consumer:
        granted = list(_of_roles(resources, operations, principals, roles))
    else:
        if roles.idempotent:
            raise usage("--idempotent belongs to --producer")
        granted = list(_of_operations(resources, operations))
    return list(
        dict.fromkeys(
            Acl(_pattern(type_, name, pattern_type), principal, host, operation, permission)
            for type_, name, operation in granted
            for principal, host, permission in principals.rules()
        )
    )


def _pattern(type_: AclResourceType, name: str, pattern_type: PatternType) -> ResourcePattern:
    """The cluster has one name, which is always literal."""
    if type_ is AclResourceType.CLUSTER:
        return ResourcePattern(type_, name)
    if pattern_type is PatternType.PREFIXED and name == "*":
        raise usage(
            "with --prefixed, '*' is a prefix of names that begin with a star; leave it out"
        )
    return ResourcePattern(type_, name, pattern_type)


def _of_operations(
    resources: Sequence[Resource], operations: Sequence[AclOperation]
) -> Iterator[tuple[AclResourceType, str, AclOperation]]:
    if not resources:
        raise usage("give a resource: --topic, --group, --cluster, --transactional-id, ...")
    if not operations:
        raise usage("give --operation, such as read or all, or --producer or --consumer")
    for type_, name in resources:
        for operation in operations:
            check_operation(operation, type_)
            yield type_, name, operation


def _of_roles(
    resources: Sequence[Resource],
    operations: Sequence[AclOperation],
    principals: Principals,
    roles: Roles,
) -> Iterator[tuple[AclResourceType, str, AclOperation]]:
    if operations or principals.denied:
        raise usage("--producer and --consumer allow fixed operations: leave out the others")
    types = {type_ for type_, _ in resources}
    if _TOPIC not in types:
        raise usage("--producer and --consumer need --topic")
    if roles.consumer and _GROUP not in types:
        raise usage("--consumer needs --group")
    chosen = [
        role
        for is_chosen, role in ((roles.producer, _PRODUCER), (roles.consumer, _CONSUMER))
        if is_chosen
    ]
    unused = types - {type_ for role in chosen for type_ in role}
    if unused:
        word = min(unused).name.lower().replace("_", "-")
        raise usage(f"--{word} has no use with this role")
    for role in chosen:
        for type_, name in resources:
            for operation in role.get(type_, ()):
                yield type_, name, operation
    if roles.idempotent:
        if not roles.producer:
            raise usage("--idempotent belongs to --producer")
        yield AclResourceType.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE
