"""Decides whether a principal may do an operation, from super users and ACLs. Pure.

Kafka's rules (StandardAuthorizer): a super user may do everything. A matching DENY wins over every
ALLOW. READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS; a
DENY implies nothing. A resource without any matching ACL is open only with
`allow.everyone.if.no.acl.found`. Before the metadata is loaded, nothing is known about ACLs, and
only super users pass.
"""

from enum import Enum
from typing import Final, NamedTuple

from headrace.security.authorization.acl import (
    ANY_HOST,
    WILDCARD_NAME,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from headrace.security.authorization.acl_index import AclIndex, ByPrincipal, TypeIndex
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

    SUPER_USER = "super user"
    DENIED_BY_ACL = "denied by an ACL"
    ALLOWED_BY_ACL = "allowed by an ACL"
    NO_ACL_ON_RESOURCE = "the resource has no ACL"
    NO_MATCHING_ACL = "no ACL allows it"
    WRONG_LISTENER = "the request is for the listener between brokers"
    NOT_LOADED = "the broker has not loaded the ACLs yet"


class Decision(NamedTuple):
    """Whether the operation is allowed, the rule that decided and, if one did, the ACL."""

    allowed: bool
    reason: Reason
    acl: Acl | None = None


class Authorizer:
    """Decisions over the ACLs of an index. `index` may change between decisions; None means that
    the ACLs are not known yet."""

    def __init__(
        self,
        index: AclIndex | None,
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
            return _SUPER_USER
        if self.index is None:
            return _NOT_LOADED
        acls = self.index.of_type(type_)
        if acls is None:
            return self._without_acls()
        principals = (str(principal), _EVERYONE)
        allowing = _IMPLIED_BY.get(operation) or (operation, _ALL)
        allowed_by: Acl | None = None
        found = False
        for by_principal in acls.covering(name):
            found = True
            for each in principals:
                for acl, from_host in by_principal.get(each, _NONE).items():
                    if from_host not in (host, ANY_HOST):
                        continue
                    if acl.permission is _DENY:
                        if acl.operation in (operation, _ALL):
                            return Decision(False, Reason.DENIED_BY_ACL, acl)
                    elif allowed_by is None and acl.operation in allowing:
                        allowed_by = acl
        if allowed_by is not None:
            return Decision(True, Reason.ALLOWED_BY_ACL, allowed_by)
        return _NO_MATCHING_ACL if found else self._without_acls()

    def _without_acls(self) -> Decision:
        return _OPEN if self._allow_if_no_acl else _NO_ACL

    def decide_for_any(
        self, principal: Principal, host: str, operation: AclOperation, type_: AclResourceType
    ) -> bool:
        """Whether there may be a resource of this type that the principal may use this way.

        An ALLOW counts unless a DENY covers every resource that it covers (KIP-679).
        """
        if self.is_super_user(principal):
            return True
        if self.index is None:
            return False
        acls = self.index.of_type(type_)
        if acls is None:
            return self._allow_if_no_acl
        who = _Requester((str(principal), _EVERYONE), host, operation)
        everything = acls.literal.get(WILDCARD_NAME)
        if everything is None:
            if self._allow_if_no_acl:
                return True  # a name that no ACL covers
        elif who.is_denied_by(everything):
            return False
        allowing = _IMPLIED_BY.get(operation) or (operation, _ALL)
        return any(
            from_host in (host, ANY_HOST) and not _is_dominated(acl, who, acls)
            for each in who.principals
            for allowed in allowing
            for acl, from_host in acls.allows(each, allowed).items()
        )


class _Requester(NamedTuple):
    """The principals that a client acts as, its address, and the operation."""

    principals: tuple[str, str]
    host: str
    operation: AclOperation

    def is_denied_by(self, by_principal: ByPrincipal) -> bool:
        """Whether one of the ACLs of a pattern is a DENY for this."""
        return any(
            acl.permission is _DENY
            and acl.operation in (self.operation, _ALL)
            and from_host in (self.host, ANY_HOST)
            for each in self.principals
            for acl, from_host in by_principal.get(each, _NONE).items()
        )


def _is_dominated(allow: Acl, who: _Requester, acls: TypeIndex) -> bool:
    """Whether one DENY covers every resource of the ALLOW. A DENY of `*` is ruled out before."""
    _, name, pattern_type = allow.pattern
    if pattern_type is PatternType.LITERAL:
        if name == WILDCARD_NAME:
            return False
        same_name = acls.literal.get(name)
        if same_name is not None and who.is_denied_by(same_name):
            return True
    return any(who.is_denied_by(by_principal) for by_principal in acls.prefixes_of(name))


_ALL: Final = AclOperation.ALL
_DENY: Final = AclPermission.DENY
_NONE: Final[dict[Acl, str]] = {}
_SUPER_USER: Final = Decision(True, Reason.SUPER_USER)
_NOT_LOADED: Final = Decision(False, Reason.NOT_LOADED)
_OPEN: Final = Decision(True, Reason.NO_ACL_ON_RESOURCE)
_NO_ACL: Final = Decision(False, Reason.NO_ACL_ON_RESOURCE)
_NO_MATCHING_ACL: Final = Decision(False, Reason.NO_MATCHING_ACL)
