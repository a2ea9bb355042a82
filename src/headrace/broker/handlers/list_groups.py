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

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(broker: Broker, context: Context, request: ListGroupsRequest) -> ListGroupsResponse:
    states, types = request.states_filter, request.types_filter
    try:
        listed = broker.groups.read_all(
            lambda shard, now_ms: shard.listing.list(states, types, now_ms)
        )
    except CoordinatorError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(groups=list(chain.from_iterable(listed)))
