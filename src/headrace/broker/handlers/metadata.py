"""Metadata (key 3), versions 0-13: describes brokers and topics; may create topics.

* v0: an empty list asks for all topics; later versions use null.
* v4: the client may forbid auto-creation.
* v10: topic ids in the response.
* v12: topics by id in the request.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.broker.metadata.internal_topics import new_topic
from headrace.broker.network.authorized_operations import (
    CLUSTER_OPERATIONS,
    NOT_REQUESTED,
    TOPIC_OPERATIONS,
)
from headrace.broker.network.dispatch import Context
from headrace.cluster.image import BrokerRegistration as ClusterBroker
from headrace.cluster.image import MetadataImage, Topic
from headrace.cluster.topic_names import missing_topic_error
from headrace.cluster.topology import NO_LEADER
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

NO_TOPIC_ID = bytes(16)
FIRST_VERSION_BY_ID = 12
NO_LEADER_NOW = ErrorCode.LEADER_NOT_AVAILABLE


def handle(
    broker: Broker, context: Context, request: MetadataRequest
) -> MetadataResponse | Coroutine[object, object, MetadataResponse]:
    if context.version < FIRST_VERSION_BY_ID and any(
        asked.topic_id != NO_TOPIC_ID for asked in request.topics or ()
    ):
        return _reject_topic_ids(request)
    missing = _missing_topics(broker, request)
    if missing:
        return _create_then_respond(broker, context, request, missing)
    if broker.membership is not None and request.topics:
        # A coroutine even while no broker is suspected: it runs after the events that the loop has
        # already received, and one of them may be the end of a leader's connection.
        return _respond_when_leaders_are_confirmed(broker, context, request)
    return _metadata_response(broker, context, request, {})


async def _respond_when_leaders_are_confirmed(
    broker: Broker, context: Context, request: MetadataRequest
) -> MetadataResponse:
    """Waits while a leader in the response is suspected to have crashed.

    A suspicion is confirmed or dropped within a short time.
    """
    assert broker.membership is not None
    suspicions = broker.membership.crashes.suspicions
    while suspicions:
        answer = _metadata_response(broker, context, request, {})
        leaders = {each.leader_id for topic in answer.topics for each in topic.partitions}
        if not suspicions.any_of(leaders):
            return answer
        await suspicions.until_cleared()
    return _metadata_response(broker, context, request, {})


def _reject_topic_ids(request: MetadataRequest) -> MetadataResponse:
    """Requests of v10 and v11 have a field for topic ids, but Kafka rejects ids in it."""
    return MetadataResponse(
        brokers=[],
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=asked.name or "", partitions=[]
            )
            for asked in request.topics or ()
        ],
    )


def _missing_topics(broker: Broker, request: MetadataRequest) -> list[str]:
    """Missing topics, if both the client and the broker allow auto-creation."""
    if not (request.allow_auto_topic_creation and broker.limits.auto_create_topics):
        return []
    topics = broker.metadata.image.topics
    names = (asked.name for asked in request.topics or () if asked.topic_id == NO_TOPIC_ID)
    return [name for name in dict.fromkeys(names) if name and name not in topics]


async def _create_then_respond(
    broker: Broker, context: Context, request: MetadataRequest, missing: Sequence[str]
) -> MetadataResponse:
    live = len(broker.metadata.image.live_brokers())
    new = [new_topic(name, broker.settings, live) for name in missing]
    results = await broker.metadata.create_topics(new)
    errors: dict[str, ErrorCode] = {
        result.name: result.error.code
        for result in results
        # TOPIC_ALREADY_EXISTS: another client created the topic meanwhile, so it can be described.
        if result.error.code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
    return _metadata_response(broker, context, request, errors)


def _metadata_response(
    broker: Broker, context: Context, request: MetadataRequest, errors: dict[str, ErrorCode]
) -> MetadataResponse:
    image = broker.metadata.image
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED
    everything = request.topics is None or (context.version == 0 and not request.topics)
    if everything:
        live = image.live_ids
        topics = [_describe_topic(topic, operations, live) for topic in image.topics.values()]
    else:
        topics = [
            _describe_requested(image, asked, errors, operations)
            for asked in _unique_topics(request)
        ]
    shown = image.live_brokers()
    if broker.membership is not None and not everything:
        shown += broker.membership.crashes.recently_fenced()
    return MetadataResponse(
        brokers=_described_brokers(shown, context.connection.listener),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        ),
    )


def _unique_topics(request: MetadataRequest) -> Iterable[MetadataRequestTopic]:
    return {(asked.name, asked.topic_id): asked for asked in request.topics or ()}.values()


def _describe_requested(
    image: MetadataImage,
    asked: MetadataRequestTopic,
    errors: dict[str, ErrorCode],
    operations: int,
) -> MetadataResponseTopic:
    if asked.topic_id != NO_TOPIC_ID:
        topic = image.topics_by_id.get(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                name=None,
                topic_id=asked.topic_id,
                partitions=[],
            )
        return _describe_topic(topic, operations, image.live_ids)
    name = asked.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return _describe_topic(topic, operations, image.live_ids)
    error = errors.get(name) or missing_topic_error(name)
    return MetadataResponseTopic(error_code=error, name=name, partitions=[])


def _describe_topic(topic: Topic, operations: int, live: frozenset[int]) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[
            MetadataResponsePartition(
                error_code=NO_LEADER_NOW if partition.leader == NO_LEADER else ErrorCode.NONE,
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=[id_ for id_ in partition.replicas if id_ not in live],
            )
            for index, partition in enumerate(topic.partitions)
        ],
        topic_authorized_operations=operations,
    )


def _described_brokers(
    shown: Iterable[ClusterBroker], listener: str
) -> list[MetadataResponseBroker]:
    brokers = []
    for each in shown:
        endpoint = each.endpoint(listener)
        if endpoint is not None:
            brokers.append(
                MetadataResponseBroker(
                    node_id=each.broker_id, host=endpoint.host, port=endpoint.port, rack=each.rack
                )
            )
    return brokers
