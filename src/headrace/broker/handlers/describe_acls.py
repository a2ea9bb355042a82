"""DescribeAcls (key 29), versions 1-3: lists the ACLs that match a filter.

* v3: the resource type USER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.acl_changes import check_filter
from headrace.controller.result import Refused
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from headrace.security.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
    code_of,
)
from headrace.security.acl_filter import AclFilter

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(broker: Broker, context: Context, request: DescribeAclsRequest) -> DescribeAclsResponse:
    if not broker.access.is_enforced:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    wanted = AclFilter(
        code_of(AclResourceType, request.resource_type_filter),
        request.resource_name_filter,
        code_of(PatternType, request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        code_of(AclOperation, request.operation),
        code_of(AclPermission, request.permission_type),
    )
    try:
        check_filter(wanted)
    except Refused as refused:
        code, message = refused.error
        return DescribeAclsResponse(error_code=code, error_message=message)
    by_pattern: dict[ResourcePattern, list[Acl]] = {}
    for acl in broker.metadata.image.acls:
        if wanted.matches(acl):
            by_pattern.setdefault(acl.pattern, []).append(acl)
    return DescribeAclsResponse(
        error_message=None,
        resources=[_resource(pattern, acls) for pattern, acls in by_pattern.items()],
    )


def _resource(pattern: ResourcePattern, acls: list[Acl]) -> DescribeAclsResource:
    return DescribeAclsResource(
        resource_type=pattern.type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=[
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ],
    )
