"""Decides whether a principal may do an operation, from super users and ACLs. Pure.

Kafka's rules (StandardAuthorizer): a super user may do everything. A matching DENY wins over every
ALLOW. READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS; a
DENY implies nothing. A resource without any matching ACL is open only with
`allow.everyone.if.no.acl.found`.

`AclIndex` keeps the ACLs by resource type: those with a literal name by name, those with a prefix
by prefix and by its length. A decision looks at the ACLs that match the resource and no others, so
its cost does not grow with the number of ACLs.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from headrace.security.acl import (
    ANY_HOST,
    WILDCARD_NAME,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from headrace.security.principal import WILDCARD, Principal

_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: frozenset(
        {
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.ALL,
        }
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.ALL}
    ),
}
_EVERYONE: Final = str(WILDCARD)


class Reason(Enum):
    """The rule that decided."""

    INTERNAL = "a request of this broker itself"
    SUPER_USER = "super user"
    DENIED_BY_ACL = "denied by an ACL"
    ALLOWED_BY_ACL = "allowed by an ACL"
    NO_ACL_ON_RESOURCE = "the resource has no ACL"
    NO_MATCHING_ACL = "no ACL allows it"


class Decision(NamedTuple):
    """Whether the operation is allowed, the rule that decided and, if one did, the ACL."""

    allowed: bool
    reason: Reason
    acl: Acl | None = None


class _TypeIndex:
    """The ACLs of one resource type."""

    __slots__ = ("literal", "prefix_lengths", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, dict[Acl, None]] = {}
        self.prefixed: dict[str, dict[Acl, None]] = {}
        self.prefix_lengths: dict[int, int] = {}  # the number of prefixes of each length

    def add(self, acl: Acl) -> None:
        name = acl.pattern.name
        if acl.pattern.pattern_type is PatternType.PREFIXED:
            if name not in self.prefixed:
                self.prefix_lengths[len(name)] = self.prefix_lengths.get(len(name), 0) + 1
            self.prefixed.setdefault(name, {})[acl] = None
        else:
            self.literal.setdefault(name, {})[acl] = None

    def remove(self, acl: Acl) -> None:
        name = acl.pattern.name
        prefixed = acl.pattern.pattern_type is PatternType.PREFIXED
        table = self.prefixed if prefixed else self.literal
        acls = table.get(name)
        if acls is None:
            return
        acls.pop(acl, None)
        if acls:
            return
        del table[name]
        if prefixed:
            self.prefix_lengths[len(name)] -= 1
            if not self.prefix_lengths[len(name)]:
                del self.prefix_lengths[len(name)]

    def matching(self, name: str) -> Iterator[Acl]:
        yield from self.literal.get(name, ())
        if name != WILDCARD_NAME:
            yield from self.literal.get(WILDCARD_NAME, ())
        prefixed = self.prefixed
        for length in self.prefix_lengths:
            if length <= len(name):
                yield from prefixed.get(name[:length], ())

    def all(self) -> Iterator[Acl]:
        for acls in self.literal.values():
            yield from acls
        for acls in self.prefixed.values():
            yield from acls


class AclIndex:
    """All ACLs of a cluster, for fast decisions."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._by_type: dict[AclResourceType, _TypeIndex] = {}
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        self._by_type.setdefault(acl.pattern.type, _TypeIndex()).add(acl)

    def remove(self, acl: Acl) -> None:
        index = self._by_type.get(acl.pattern.type)
        if index is not None:
            index.remove(acl)

    def matching(self, type_: AclResourceType, name: str) -> Iterator[Acl]:
        """The ACLs for the resource with this name."""
        index = self._by_type.get(type_)
        return iter(()) if index is None else index.matching(name)

    def of_type(self, type_: AclResourceType) -> Iterator[Acl]:
        index = self._by_type.get(type_)
        return iter(()) if index is None else index.all()


class Authorizer:
    """Decisions over the ACLs of an index. `index` may change between decisions."""

    def __init__(
        self,
        index: AclIndex,
        super_users: frozenset[Principal] = frozenset(),
        *,
        allow_if_no_acl: bool = False,
    ) -> None:
        self.index = index
        self._super_users = frozenset(
            each._replace(token_authenticated=False) for each in super_users
        )
        self._allow_if_no_acl = allow_if_no_acl

    def is_super_user(self, principal: Principal) -> bool:
        if principal.token_authenticated:
            principal = principal._replace(token_authenticated=False)
        return principal in self._super_users

    def decide(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        type_: AclResourceType,
        name: str,
    ) -> Decision:
        """The decision and its reason; `host` is the client's IP address."""
        if self.is_super_user(principal):
            return Decision(True, Reason.SUPER_USER)
        names = (str(principal), _EVERYONE)
        allowing = _IMPLIED_BY.get(operation) or (operation, AclOperation.ALL)
        allowed_by: Acl | None = None
        found = False
        for acl in self.index.matching(type_, name):
            found = True
            if acl.principal not in names or acl.host not in (host, ANY_HOST):
                continue
            if acl.permission is AclPermission.DENY:
                if acl.operation in (operation, AclOperation.ALL):
                    return Decision(False, Reason.DENIED_BY_ACL, acl)
            elif allowed_by is None and acl.operation in allowing:
                allowed_by = acl
        if allowed_by is not None:
            return Decision(True, Reason.ALLOWED_BY_ACL, allowed_by)
        if not found and self._allow_if_no_acl:
            return Decision(True, Reason.NO_ACL_ON_RESOURCE)
        return Decision(False, Reason.NO_MATCHING_ACL if found else Reason.NO_ACL_ON_RESOURCE)

    def decide_for_any(
        self, principal: Principal, host: str, operation: AclOperation, type_: AclResourceType
    ) -> bool:
        """Whether there may be a resource of this type that the principal may use this way.

        An ALLOW counts unless a DENY covers every resource that it covers (KIP-679).
        """
        if self.is_super_user(principal):
            return True
        names = (str(principal), _EVERYONE)
        allows: list[Acl] = []
        denies: list[Acl] = []
        for acl in self.index.of_type(type_):
            if (
                acl.principal in names
                and acl.host in (host, ANY_HOST)
                and acl.operation in (operation, AclOperation.ALL)
            ):
                (denies if acl.permission is AclPermission.DENY else allows).append(acl)
        if any(_covers_all(deny) for deny in denies):
            return False
        if self._allow_if_no_acl:
            return True
        return any(not any(_dominates(deny, allow) for deny in denies) for allow in allows)


def _covers_all(acl: Acl) -> bool:
    return acl.pattern.pattern_type is PatternType.LITERAL and acl.pattern.name == WILDCARD_NAME


def _dominates(deny: Acl, allow: Acl) -> bool:
    """Whether the deny covers every resource of the allow."""
    if deny.pattern.pattern_type is PatternType.PREFIXED:
        return not _covers_all(allow) and allow.pattern.name.startswith(deny.pattern.name)
    return deny.pattern == allow.pattern
