"""CreateAcls (key 30), versions 1-3: adds ACLs.

* v3: the resource type USER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.controller.result import ApiError
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
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

if TYPE_CHECKING:
    from headrace.broker.node import Broker

_NO_AUTHORIZER: Final = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


async def handle(
    broker: Broker, context: Context, request: CreateAclsRequest
) -> CreateAclsResponse:
    if not broker.access.is_enforced:
        return _response([_NO_AUTHORIZER] * len(request.creations))
    acls = [_acl(creation) for creation in request.creations]
    known = broker.metadata.image.acls
    results = await broker.metadata.decide(lambda controller: controller.create_acls(acls))
    outcomes = zip(acls, results, strict=True)
    for acl in dict.fromkeys(acl for acl, error in outcomes if error.code == ErrorCode.NONE):
        if acl not in known:
            broker.access.audit.log_change(
                context.session, ApiKey.CREATE_ACLS, "created an ACL", acl=acl
            )
    return _response(list(results))


def _acl(creation: AclCreation) -> Acl:
    pattern = ResourcePattern(
        code_of(AclResourceType, creation.resource_type),
        creation.resource_name,
        code_of(PatternType, creation.resource_pattern_type),
    )
    return Acl(
        pattern,
        creation.principal,
        creation.host,
        code_of(AclOperation, creation.operation),
        code_of(AclPermission, creation.permission_type),
    )


def _response(results: list[ApiError]) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            # As in Kafka, a success has an empty message.
            AclCreationResult(error_code=error.code, error_message=error.message or "")
            for error in results
        ]
    )
