"""ACLs as words of the command line: parsing and printing. Pure.

Operations, resource types and pattern types have the names of Kafka's tools in lower case, with
hyphens: `describe-configs`. `DescribeConfigs` and `describe_configs` are understood, too.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from headrace.cli.error_messages import usage
from headrace.name_suggestion import nearest_name
from headrace.operations.acl_text import word_of
from headrace.security.authorization.acl import (
    ANY_HOST,
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    Code,
)
from headrace.security.principal import InvalidPrincipal, parse_principal

HEADERS: Final = (
    "PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST",
)  # fmt: skip

_CLUSTER: Final = "cluster"
_WILDCARDS: Final = ("UNKNOWN", "ANY")

CodeT = TypeVar("CodeT", bound=Code)


def parse_principals(words: Iterable[str]) -> list[str]:
    return [parse_principal_word(word) for word in words]


def parse_principal_word(word: str) -> str:
    try:
        return str(parse_principal(word))
    except InvalidPrincipal as error:
        raise usage(str(error)) from error


def parse_operations(words: Iterable[str]) -> list[AclOperation]:
    """Operations, also several in one word with commas between them."""
    each = (part for word in words for part in word.split(",") if part.strip())
    return list(dict.fromkeys(parse_operation(part) for part in each))


def parse_operation(word: str) -> AclOperation:
    return _parse(AclOperation, word, "operation")


def parse_permission(word: str) -> AclPermission:
    return _parse(AclPermission, word, "permission")


def parse_resource(word: str) -> tuple[AclResourceType, str]:
    """`topic:orders`, `group:billing`, `cluster`."""
    kind, colon, name = word.partition(":")
    if _plain(kind) == _plain(_CLUSTER) and name in ("", CLUSTER_NAME):
        return AclResourceType.CLUSTER, CLUSTER_NAME
    if not (colon and name):
        raise usage(f"expected a resource such as topic:orders or cluster, got {word!r}")
    type_ = _parse(AclResourceType, kind, "resource type")
    if type_ is AclResourceType.CLUSTER:
        raise usage(f"the cluster has no name: write cluster instead of {word!r}")
    return type_, name


def parse_host(word: str) -> str:
    """An IP address or `*`. Brokers compare addresses; a name would never match."""
    from ipaddress import ip_address

    if word == ANY_HOST:
        return word
    try:
        ip_address(word)
    except ValueError:
        raise usage(
            f"{word!r} is not an IP address: brokers compare addresses and resolve no names"
        ) from None
    return word


def check_operation(operation: AclOperation, type_: AclResourceType) -> None:
    """Raises `CommandFailed` if resources of this type do not have the operation."""
    supported = SUPPORTED_OPERATIONS[type_]
    if operation is not AclOperation.ALL and operation not in supported:
        words = ", ".join(word_of(each) for each in sorted(supported))
        raise usage(f"{word_of(type_)} has no operation {word_of(operation)}; it has {words}, all")


def facts_of(acl: Acl) -> dict[str, str]:
    """An ACL for JSON and YAML."""
    return {
        "principal": acl.principal,
        "permission": word_of(acl.permission),
        "operation": word_of(acl.operation),
        "resource_type": word_of(acl.pattern.type),
        "resource_name": acl.pattern.name,
        "pattern_type": word_of(acl.pattern.pattern_type),
        "host": acl.host,
    }


def row_of(acl: Acl) -> tuple[str, ...]:
    """An ACL as a row under `HEADERS`."""
    return tuple(facts_of(acl).values())


def _parse(kind: type[CodeT], word: str, what: str) -> CodeT:
    known = {_plain(each.name): each for each in kind if each.name not in _WILDCARDS}
    found = known.get(_plain(word))
    if found is not None:
        return found
    words = [word_of(each) for each in known.values()]
    near = nearest_name(word.lower(), words)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(words)}"
    raise usage(f"unknown {what} {word!r}; {hint}")


def _plain(word: str) -> str:
    return word.strip().lower().replace("_", "").replace("-", "")
