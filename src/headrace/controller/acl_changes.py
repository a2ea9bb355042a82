"""Creating and deleting ACLs: Kafka's checks in Kafka's order, records out. Pure.

Each ACL and each filter of a request succeeds or fails on its own. An ACL that exists already is
created successfully, without a record.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import AclCreated, AclDeleted
from headrace.cluster.topology import SECURITY_LEVEL
from headrace.controller.metadata_level import require_metadata_level
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from headrace.protocol.errors import ErrorCode
from headrace.security.authorization.acl import (
    CLUSTER_NAME,
    WILDCARD_NAME,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from headrace.security.authorization.acl_filter import AclFilter

MAX_CHANGES_PER_REQUEST: Final = 10_000
"""The ACLs that one request may create or delete, as in Kafka: they must fit one batch."""
MAX_ACLS: Final = 100_000
"""In the whole cluster: every broker keeps them in memory (about 100 MB)."""
MAX_TEXT_CHARS: Final = 1_024
"""Of a name, a principal and a host. On the wire each may have 32 kB, and each is in memory."""
MAX_COMPARISONS: Final = 500_000
"""Of an ACL with a filter, in one request: about half a second. Only filters without a name and a
principal are compared with every ACL."""

_TOO_MANY: Final = "Unable to perform excessively large batch operation."


class DeletedAcls(NamedTuple):
    """The result for one filter: the ACLs that it matched, or an error."""

    acls: Sequence[Acl] = ()
    error: ApiError = NO_ERROR


def create_acls(
    image: MetadataImage, acls: Sequence[Acl], *, in_znodes: bool = False
) -> ControllerResult[ApiError]:
    """One result for each ACL, in the order of the request. `in_znodes` if names become names of
    znodes."""
    if len(acls) > MAX_CHANGES_PER_REQUEST:
        error = _limit_error(f"A request may create at most {MAX_CHANGES_PER_REQUEST} ACLs.")
        return ControllerResult((), [error] * len(acls))
    new: dict[Acl, None] = {}
    results: list[ApiError] = []
    for acl in acls:
        try:
            _check(acl, in_znodes=in_znodes)
            if acl not in image.acls and acl not in new:
                require_metadata_level(image, SECURITY_LEVEL, "ACLs")
                if len(image.acls) + len(new) >= MAX_ACLS:
                    raise Refused(
                        ErrorCode.POLICY_VIOLATION,
                        f"The cluster has {MAX_ACLS} ACLs, which is the maximum. Delete some, or "
                        "use prefixed ACLs.",
                    )
                new[acl] = None
        except Refused as refused:
            results.append(refused.error)
        else:
            results.append(NO_ERROR)
    return ControllerResult(tuple(map(AclCreated, new)), results)


def delete_acls(
    image: MetadataImage, filters: Sequence[AclFilter]
) -> ControllerResult[DeletedAcls]:
    """One result for each filter. Two filters may match the same ACL, which both results have."""
    if len(filters) > MAX_CHANGES_PER_REQUEST:
        error = _limit_error(f"A request may have at most {MAX_CHANGES_PER_REQUEST} filters.")
        return ControllerResult((), [DeletedAcls(error=error)] * len(filters))
    search = _Search(image.acls)
    deleted: dict[Acl, None] = {}
    results: list[DeletedAcls] = []
    for each in filters:
        try:
            found = search.matching(each)
        except Refused as refused:
            results.append(DeletedAcls(error=refused.error))
            continue
        deleted |= dict.fromkeys(found)
        results.append(DeletedAcls(found))
    return ControllerResult(tuple(map(AclDeleted, deleted)), results)


def check_filter(acl_filter: AclFilter) -> None:
    """Raises `Refused` if the filter has an unknown code."""
    unknown = acl_filter.unknown_part
    if unknown is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown {unknown}.")


class _Search:
    """Finds the ACLs of the filters of one request, within the limits of a request."""

    def __init__(self, acls: Mapping[Acl, None]) -> None:
        self._acls = acls
        self._by_name: dict[str, list[Acl]] = {}
        self._by_principal: dict[str, list[Acl]] = {}
        self._comparisons = 0
        self._matches = 0

    def matching(self, acl_filter: AclFilter) -> Sequence[Acl]:
        check_filter(acl_filter)
        candidates = self._candidates(acl_filter)
        self._count_comparisons(len(candidates))
        found = [acl for acl in candidates if acl_filter.matches(acl)]
        if self._matches + len(found) > MAX_CHANGES_PER_REQUEST:
            raise _invalid(
                f"Cannot remove more than {MAX_CHANGES_PER_REQUEST} acls in a single delete "
                "operation."
            )
        self._matches += len(found)
        return found

    def _candidates(self, acl_filter: AclFilter) -> Collection[Acl]:
        """The ACLs that can match: those with the name or the principal, if the filter has one."""
        exact = acl_filter.exact_acl()
        if exact is not None:
            return (exact,) if exact in self._acls else ()
        name, principal = acl_filter.name, acl_filter.principal
        if name is not None:
            self._group()
            if acl_filter.pattern_type is not PatternType.MATCH:
                return self._by_name.get(name, ())
            longest = min(len(name), MAX_TEXT_CHARS)
            self._count_comparisons(longest)
            names = dict.fromkeys((WILDCARD_NAME, *(name[: end + 1] for end in range(longest))))
            return [acl for each in names for acl in self._by_name.get(each, ())]
        if principal is not None:
            self._group()
            return self._by_principal.get(principal, ())
        return self._acls

    def _count_comparisons(self, number: int) -> None:
        if self._comparisons + number > MAX_COMPARISONS:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"{_TOO_MANY} Send fewer filters without a name and a principal.",
            )
        self._comparisons += number

    def _group(self) -> None:
        if not self._by_name:
            for acl in self._acls:
                self._by_name.setdefault(acl.pattern.name, []).append(acl)
                self._by_principal.setdefault(acl.principal, []).append(acl)


def _limit_error(what: str) -> ApiError:
    return ApiError(ErrorCode.POLICY_VIOLATION, f"{_TOO_MANY} {what}")


def _check(acl: Acl, *, in_znodes: bool) -> None:
    """Raises `Refused` if there can be no such ACL."""
    type_, name, pattern_type = acl.pattern
    if type_ is AclResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise _invalid("Invalid empty resource name")
    if type_ in (AclResourceType.UNKNOWN, AclResourceType.ANY):
        raise _invalid(f"Invalid resourceType {type_.name}")
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {pattern_type.name}")
    if acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission not in (AclPermission.ALLOW, AclPermission.DENY):
        raise _invalid(f"Invalid permissionType {acl.permission.name}")
    for what, text in (("resource name", name), ("principal", acl.principal), ("host", acl.host)):
        if len(text) > MAX_TEXT_CHARS:
            raise _invalid(
                f"The {what} has {len(text)} characters; the maximum is {MAX_TEXT_CHARS}"
            )
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    if in_znodes:
        _check_znode_name(name)


def _check_znode_name(name: str) -> None:
    """A name that ZooKeeper refuses would fail the commit, and with it the controller's term."""
    if "/" in name:
        raise _invalid(
            f"The resource name {name!r} contains '/'. ACLs are stored in ZooKeeper, where names "
            "cannot contain it."
        )
    if name in (".", "..") or any(_is_refused_by_zookeeper(each) for each in name):
        raise _invalid(f"ACLs are stored in ZooKeeper, which does not accept the name {name!r}.")


def _is_refused_by_zookeeper(character: str) -> bool:
    return (
        character <= "\x1f"
        or "\x7f" <= character <= "\x9f"
        or "\ud800" <= character <= "\uf8ff"
        or character >= "\ufff0"  # Java sees the characters above as surrogates
    )


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
