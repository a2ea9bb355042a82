"""DescribeGroups (key 15), versions 0-6: describes classic groups and their members.

* v3: authorized operations.
* v4: static members.
* v6: a missing group has the error GROUP_ID_NOT_FOUND and the state "Dead"; earlier versions get
  only the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.coordinators.group_descriptions import add_authorized_operations
from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_groups import (
    DescribeGroupsDescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_NOT_FOUND: Final = 6


def authorize(broker: Broker, check: RequestCheck, request: DescribeGroupsRequest) -> Verdict:
    return check.filter_names("groups", AclOperation.DESCRIBE, AclResourceType.GROUP)


def handle(
    broker: Broker, context: Context, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    groups = [_describe_group(broker, context.version, group_id) for group_id in request.groups]
    if request.include_authorized_operations:
        add_authorized_operations(broker.access, context.session, groups)
    return DescribeGroupsResponse(groups=groups)


def _describe_group(broker: Broker, version: int, group_id: str) -> DescribeGroupsDescribedGroup:
    try:
        return broker.groups.read(group_id, lambda shard, _: shard.listing.describe(group_id))
    except CoordinatorError as error:
        return _failed_group(version, group_id, error)


def _failed_group(
    version: int, group_id: str, error: CoordinatorError
) -> DescribeGroupsDescribedGroup:
    group = DescribeGroupsDescribedGroup(group_id=group_id)
    if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        group.error_code = error.code
        return group
    group.group_state = "Dead"
    if version >= FIRST_VERSION_WITH_NOT_FOUND:
        group.error_code = error.code
        group.error_message = error.message
    return group
