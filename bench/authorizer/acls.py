"""A set of ACLs of every kind: literal names, prefixes of 20 lengths, and `*`, a third each."""

from typing import Final

from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)

PRINCIPALS: Final = 100
PREFIX_LENGTHS: Final = 20
TOPIC: Final = AclResourceType.TOPIC
READ, WRITE = AclOperation.READ, AclOperation.WRITE


def acls(count: int) -> list[Acl]:
    """ACLs of every kind; `app-1` may read `orders-1` and write what begins with `team-`."""
    found = [rule("orders-1", "User:app-1", READ), rule("team-", "User:app-1", WRITE, prefix=True)]
    for number in range(count - len(found)):
        who = f"User:app-{number % PRINCIPALS}"
        match number % 3:
            case 0:
                found.append(rule(f"topic-{number}", who, READ))
            case 1:
                padding = "x" * (number % PREFIX_LENGTHS)
                found.append(rule(f"team{padding}-{number}", who, WRITE, prefix=True))
            case _:
                found.append(rule("*", f"User:other-{number}", READ))
    return found


def rule(
    name: str,
    who: str,
    operation: AclOperation,
    *,
    type_: AclResourceType = TOPIC,
    prefix: bool = False,
) -> Acl:
    pattern_type = PatternType.PREFIXED if prefix else PatternType.LITERAL
    pattern = ResourcePattern(type_, name, pattern_type)
    return Acl(pattern, who, "*", operation, AclPermission.ALLOW)
