"""DeleteAcls (key 31), versions 1-3: removes the ACLs that match filters.

* v3: the resource type USER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.controller.acl_changes import DeletedAcls
from headrace.controller.result import ApiError
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    code_of,
)
from headrace.security.authorization.acl_filter import AclFilter

if TYPE_CHECKING:
    from headrace.broker.node import Broker

_NO_AUTHORIZER: Final = DeletedAcls(
    error=ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
)


async def handle(
    broker: Broker, context: Context, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    if not broker.access.is_enforced:
        return _response([_NO_AUTHORIZER] * len(request.filters))
    filters = [_filter(each) for each in request.filters]
    results = await broker.metadata.decide(lambda controller: controller.delete_acls(filters))
    for acl in dict.fromkeys(acl for result in results for acl in result.acls):
        broker.access.audit.log_change(
            context.session, ApiKey.DELETE_ACLS, "deleted an ACL", acl=acl
        )
    return _response(list(results))


def _filter(sent: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        code_of(AclResourceType, sent.resource_type_filter),
        sent.resource_name_filter,
        code_of(PatternType, sent.pattern_type_filter),
        sent.principal_filter,
        sent.host_filter,
        code_of(AclOperation, sent.operation),
        code_of(AclPermission, sent.permission_type),
    )


def _response(results: list[DeletedAcls]) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=result.error.code,
                error_message=result.error.message,
                matching_acls=[_matching_acl(acl) for acl in result.acls],
            )
            for result in results
        ]
    )


def _matching_acl(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.pattern.type,
        resource_name=acl.pattern.name,
        pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
