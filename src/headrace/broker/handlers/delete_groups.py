"""DeleteGroups (key 42), versions 0-2: deletes empty groups and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: DeleteGroupsRequest) -> Verdict:
    request.groups_names = list(dict.fromkeys(request.groups_names))
    return check.filter_names("groups_names", AclOperation.DELETE, AclResourceType.GROUP)


async def handle(
    broker: Broker, context: Context, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    group_ids = list(dict.fromkeys(request.groups_names))
    return DeleteGroupsResponse(results=[await _delete_group(broker, group) for group in group_ids])


async def _delete_group(broker: Broker, group_id: str) -> DeletableGroupResult:
    try:
        await broker.coordinators.share_group_states.delete_group(group_id)
        await broker.groups.run(group_id, lambda shard, _: shard.listing.delete(group_id))
    except CoordinatorError as error:
        return DeletableGroupResult(group_id=group_id, error_code=error.code)
    return DeletableGroupResult(group_id=group_id)
