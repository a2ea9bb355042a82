"""Raw requests about ACLs."""

from collections.abc import Sequence

from headrace.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from headrace.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
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
)
from headrace.security.authorization.acl_filter import ANY_ACL, AclFilter
from support.wire.connection import Wire


def topic_acl(
    name: str,
    principal: str = "User:alice",
    operation: AclOperation = AclOperation.READ,
    permission: AclPermission = AclPermission.ALLOW,
    *,
    prefixed: bool = False,
    host: str = "*",
    type_: AclResourceType = AclResourceType.TOPIC,
) -> Acl:
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    pattern = ResourcePattern(type_, name, pattern_type)
    return Acl(pattern, principal, host, operation, permission)


def create_acls(
    wire: Wire, acls: Sequence[Acl], version: int | None = None
) -> list[AclCreationResult]:
    request = CreateAclsRequest(creations=[_creation(acl) for acl in acls])
    return wire.call(request, CreateAclsResponse, version).results


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


def delete_acls(
    wire: Wire, filters: Sequence[AclFilter], version: int | None = None
) -> list[DeleteAclsFilterResult]:
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )
    return wire.call(request, DeleteAclsResponse, version).filter_results


def exactly(acl: Acl) -> AclFilter:
    """The filter that matches this ACL only."""
    type_, name, pattern_type = acl.pattern
    return AclFilter(
        type_, name, pattern_type, acl.principal, acl.host, acl.operation, acl.permission
    )


def describe_acls(
    wire: Wire, wanted: AclFilter = ANY_ACL, version: int | None = None
) -> DescribeAclsResponse:
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    return wire.call(request, DescribeAclsResponse, version)


def listed(answer: DescribeAclsResponse) -> set[Acl]:
    """The ACLs of a response."""
    assert answer.error_code == 0, answer.error_message
    return {
        Acl(
            ResourcePattern(
                AclResourceType(resource.resource_type),
                resource.resource_name,
                PatternType(resource.pattern_type),
            ),
            each.principal,
            each.host,
            AclOperation(each.operation),
            AclPermission(each.permission_type),
        )
        for resource in answer.resources
        for each in resource.acls
    }
