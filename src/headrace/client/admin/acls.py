"""ACL administration: list, create and delete the rules of who may do what."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headrace.client.client import ClusterClient, ToController
from headrace.client.errors import RequestRefused, code_of_number
from headrace.client.results import Refusal, moved, refusal, refused
from headrace.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from headrace.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headrace.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
    code_of,
)
from headrace.security.authorization.acl_filter import ANY_ACL, AclFilter

ACLS_PER_REQUEST: Final = 1_000
"""A larger number may exceed what the cluster's metadata store accepts at once."""


async def list_acls(
    client: ClusterClient, wanted: AclFilter = ANY_ACL, *, timeout_s: float
) -> list[Acl]:
    """The ACLs that match the filter, sorted."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer = await client.send(request, DescribeAclsResponse, timeout_s=timeout_s)
    if answer.error_code:
        code = code_of_number(answer.error_code)
        raise RequestRefused(code, answer.error_message or "cannot list ACLs")
    return sorted(
        _acl(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for resource in answer.resources
        for each in resource.acls
    )


async def create_acls(
    client: ClusterClient, acls: Iterable[Acl], *, timeout_s: float
) -> dict[Acl, Refusal | None]:
    """Creates the ACLs; one that exists counts as created. A refused ACL does not affect the
    others."""
    outcomes: dict[Acl, Refusal | None] = {}
    for part in _in_parts(list(dict.fromkeys(acls))):
        request = CreateAclsRequest(creations=[_creation(acl) for acl in part])
        answer = await client.send(
            request,
            CreateAclsResponse,
            to=ToController(),
            timeout_s=timeout_s,
            code_of=lambda got: moved(each.error_code for each in got.results),
        )
        for acl, result in zip(part, answer.results, strict=True):
            outcomes[acl] = refusal(result.error_code, result.error_message)
    return outcomes


async def delete_acls(
    client: ClusterClient, acls: Iterable[Acl], *, timeout_s: float
) -> dict[Acl, Refusal | None]:
    """Deletes exactly these ACLs; one that does not exist any more counts as deleted."""
    outcomes: dict[Acl, Refusal | None] = {}
    for part in _in_parts(list(dict.fromkeys(acls))):
        request = DeleteAclsRequest(filters=[_exact_filter(acl) for acl in part])
        answer = await client.send(
            request,
            DeleteAclsResponse,
            to=ToController(),
            timeout_s=timeout_s,
            code_of=lambda got: moved(each.error_code for each in got.filter_results),
        )
        for acl, result in zip(part, answer.filter_results, strict=True):
            failures = (_failure(match) for match in result.matching_acls)
            outcomes[acl] = refusal(result.error_code, result.error_message) or next(
                (why for why in failures if why is not None), None
            )
    return outcomes


def _failure(match: DeleteAclsMatchingAcl) -> Refusal | None:
    return refused(match.error_code, match.error_message) if match.error_code else None


def _in_parts(acls: Sequence[Acl]) -> Iterator[Sequence[Acl]]:
    for start in range(0, len(acls), ACLS_PER_REQUEST):
        yield acls[start : start + ACLS_PER_REQUEST]


def _creation(acl: Acl) -> AclCreation:
    return AclCreation(
        resource_type=acl.pattern.type,
        resource_name=acl.pattern.name,
        resource_pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _exact_filter(acl: Acl) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=acl.pattern.type,
        resource_name_filter=acl.pattern.name,
        pattern_type_filter=acl.pattern.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _acl(
    type_: int,
    name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> Acl:
    pattern = ResourcePattern(
        code_of(AclResourceType, type_), name, code_of(PatternType, pattern_type)
    )
    return Acl(
        pattern,
        principal,
        host,
        code_of(AclOperation, operation),
        code_of(AclPermission, permission),
    )
