"""DescribeAcls (key 29), versions 1-3: lists the ACLs that match a filter.

* v3: the resource type USER.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

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
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
    code_of,
)
from headrace.security.authorization.acl_filter import AclFilter

if TYPE_CHECKING:
    from headrace.broker.node import Broker


ACLS_PER_SLICE: Final = 1_000
"""Other connections are served in between: a cluster may have many ACLs."""


async def handle(
    broker: Broker, context: Context, request: DescribeAclsRequest
) -> DescribeAclsResponse:
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
    return DescribeAclsResponse(
        error_message=None, resources=await _resources(broker.metadata.image.acls, wanted)
    )


async def _resources(acls: Mapping[Acl, None], wanted: AclFilter) -> list[DescribeAclsResource]:
    """The ACLs of one image, which does not change meanwhile, by resource."""
    found: dict[ResourcePattern, DescribeAclsResource] = {}
    for number, acl in enumerate(acls, start=1):
        if number % ACLS_PER_SLICE == 0:
            await asyncio.sleep(0)
        if wanted.matches(acl):
            resource = found.get(acl.pattern)
            if resource is None:
                resource = found[acl.pattern] = _resource(acl.pattern)
            resource.acls.append(_description(acl))
    return list(found.values())


def _resource(pattern: ResourcePattern) -> DescribeAclsResource:
    return DescribeAclsResource(
        resource_type=pattern.type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=[],
    )


def _description(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
