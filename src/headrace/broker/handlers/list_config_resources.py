"""ListConfigResources (key 74), versions 0-1: lists resources that have configs.

* v0: client metrics only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.cluster.resources import ConfigResourceType
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

KNOWN_TYPES = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN}


def handle(
    broker: Broker, context: Context, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    types = request.resource_types if context.version else [ConfigResourceType.CLIENT_METRICS]
    if not KNOWN_TYPES.issuperset(types):
        return ListConfigResourcesResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[]
        )
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=resource.name, resource_type=resource.type)
            for resource in broker.metadata.configs.resources(types)
        ]
    )
