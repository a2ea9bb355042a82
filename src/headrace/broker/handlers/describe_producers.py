"""DescribeProducers (key 61), version 0: describes the producer state of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.broker.runtime.error_codes import failure
from headrace.cluster.topic_names import name_problem
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: DescribeProducersRequest) -> Verdict:
    valid = (topic.name for topic in request.topics if name_problem(topic.name) is None)
    denied = check.denied_names(AclOperation.READ, AclResourceType.TOPIC, valid)
    return check.remove_parts("topics", lambda topic: topic.name in denied)


def handle(
    broker: Broker, context: Context, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe_partition(broker, topic.name, index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe_partition(broker: Broker, topic: str, index: int) -> PartitionResponse:
    if name_problem(topic) is not None:
        return PartitionResponse(
            partition_index=index,
            error_code=ErrorCode.INVALID_TOPIC_EXCEPTION,
            active_producers=[],
        )
    # Any replica answers: a search for hanging transactions may send the request to a follower.
    replica = broker.partitions.replica(topic, index)
    if replica is None:
        found = broker.partitions.find(topic, index)
        code = found if isinstance(found, ErrorCode) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionResponse(partition_index=index, error_code=code, active_producers=[])
    try:
        producers = list(replica.log.producers.values())
    except StorageError as error:
        code, message = failure(error)
        return PartitionResponse(
            partition_index=index, error_code=code, error_message=message, active_producers=[]
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.txn_first_offset,
            )
            for producer in producers
        ],
    )
