"""DescribeCluster (key 60), versions 0-2: lists the brokers of the cluster.

* v1: endpoint types; only BROKER is served.
* v2: fenced brokers on request.
* Headrace's own: on request, the state of this broker's connection to the metadata store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.access.access_control import OPERATIONS_NOT_REQUESTED
from headrace.broker.network.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

ZOOKEEPER: Final = "zookeeper"
LOCAL_FILE: Final = "file"
CONNECTED: Final = -1
BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(
    broker: Broker, context: Context, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    image = broker.metadata.image
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
            brokers=[],
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
            brokers=[],
        )
    brokers = []
    for node in image.brokers.values():
        endpoint = node.endpoint(context.connection.listener)
        if endpoint is not None and (request.include_fenced_brokers or not node.fenced):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=node.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=node.rack,
                    is_fenced=node.fenced,
                )
            )
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=brokers,
        cluster_authorized_operations=(
            broker.access.authorized_cluster_operations(context.session)
            if request.include_cluster_authorized_operations
            else OPERATIONS_NOT_REQUESTED
        ),
    )
    if request.include_metadata_store:
        _describe_store(broker, response)
    return response


def _describe_store(broker: Broker, response: DescribeClusterResponse) -> None:
    response.metadata_store = LOCAL_FILE if broker.member is None else ZOOKEEPER
    lost_s = None if broker.member is None else broker.member.store_disconnected_s
    response.metadata_store_lost_ms = CONNECTED if lost_s is None else int(lost_s * 1000)
