"""ListGroups (key 16), versions 0-5: lists the groups that this broker coordinates.

* v4: filter by state.
* v5: filter by type.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: ListGroupsRequest) -> Verdict:
    if check.access.shows_cluster(check.session, AclOperation.DESCRIBE):
        return None

    def hide(response: ListGroupsResponse) -> None:
        ids = (group.group_id for group in response.groups)
        hidden = check.hidden_names(AclOperation.DESCRIBE, AclResourceType.GROUP, ids)
        response.groups = [group for group in response.groups if group.group_id not in hidden]

    return hide


def handle(broker: Broker, context: Context, request: ListGroupsRequest) -> ListGroupsResponse:
    states, types = request.states_filter, request.types_filter
    try:
        listed = broker.groups.read_all(
            lambda shard, now_ms: shard.listing.list(states, types, now_ms)
        )
    except CoordinatorError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(groups=list(chain.from_iterable(listed)))
