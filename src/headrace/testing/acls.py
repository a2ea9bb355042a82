"""ACLs as tests write them.

acls=[allow("alice", "write", topic="orders"), deny("*", "read", topic="secret-", prefixed=True)]
"""

from headrace.security.authorization.acl import (
    ANY_HOST,
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.principal import user as principal_of


def allow(
    user: str,
    operation: str,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefixed: bool = False,
    host: str = ANY_HOST,
) -> Acl:
    """Allows an operation such as "read" on one resource.

    Args:
        user: A user's name; "*" means everyone.
        operation: The name of the operation in Kafka, in any case; "all" means all of them.
        topic: The name of a topic; "*" means every topic.
        group: The name of a group.
        transactional_id: A transactional id.
        cluster: Whether the resource is the cluster itself.
        prefixed: Whether the name is the beginning of the names of several resources.
        host: The client's IP address.
    """
    pattern = _pattern(topic, group, transactional_id, cluster=cluster, prefixed=prefixed)
    return Acl(
        pattern,
        str(principal_of(user)),
        host,
        _operation(operation, pattern.type),
        AclPermission.ALLOW,
    )


def deny(
    user: str,
    operation: str,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefixed: bool = False,
    host: str = ANY_HOST,
) -> Acl:
    """Denies an operation, even if another ACL allows it; see `allow`."""
    return allow(
        user,
        operation,
        topic=topic,
        group=group,
        transactional_id=transactional_id,
        cluster=cluster,
        prefixed=prefixed,
        host=host,
    )._replace(permission=AclPermission.DENY)


def _pattern(
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    *,
    cluster: bool,
    prefixed: bool,
) -> ResourcePattern:
    named = {
        AclResourceType.TOPIC: topic,
        AclResourceType.GROUP: group,
        AclResourceType.TRANSACTIONAL_ID: transactional_id,
        AclResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
    }
    chosen = [(type_, name) for type_, name in named.items() if name]
    if len(chosen) != 1:
        raise ValueError(
            "an ACL is for one resource: a topic, a group, a transactional_id or the cluster"
        )
    type_, name = chosen[0]
    if prefixed and type_ is AclResourceType.CLUSTER:
        raise ValueError("the cluster has no prefix")
    return ResourcePattern(type_, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)


def _operation(text: str, type_: AclResourceType) -> AclOperation:
    name = text.upper().replace("-", "_")
    supported = SUPPORTED_OPERATIONS[type_] | {AclOperation.ALL}
    found = AclOperation.__members__.get(name)
    if found is None or found not in supported:
        names = ", ".join(sorted(each.name.lower() for each in supported))
        raise ValueError(f"no operation {text!r} on a {type_.name.lower()}; there are {names}")
    return found
