"""Metadata (key 3), versions 0-13: describes brokers and topics; may create topics.

* v0: an empty list asks for all topics; later versions use null.
* v4: the client may forbid auto-creation.
* v10: topic ids in the response.
* v12: topics by id in the request.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.broker.access.access_control import OPERATIONS_NOT_REQUESTED, AccessControl
from headrace.broker.metadata.internal_topics import new_topic
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
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.security.session import Session

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
    missing, denied = _creatable(broker, context, _missing_topics(broker, request))
    if missing:
        return _create_then_respond(broker, context, request, missing, denied)
    if broker.membership is not None and request.topics:
        # A coroutine even while no broker is suspected: it runs after the events that the loop has
        # already received, and one of them may be the end of a leader's connection.
        return _respond_when_leaders_are_confirmed(broker, context, request, denied)
    return _metadata_response(broker, context, request, denied)


async def _respond_when_leaders_are_confirmed(
    broker: Broker, context: Context, request: MetadataRequest, denied: dict[str, ErrorCode]
) -> MetadataResponse:
    """Waits while a leader in the response is suspected to have crashed.

    A suspicion is confirmed or dropped within a short time.
    """
    assert broker.membership is not None
    suspicions = broker.membership.crashes.suspicions
    while suspicions:
        answer = _metadata_response(broker, context, request, denied)
        leaders = {each.leader_id for topic in answer.topics for each in topic.partitions}
        if not suspicions.any_of(leaders):
            return answer
        await suspicions.until_cleared()
    return _metadata_response(broker, context, request, denied)


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


def _creatable(
    broker: Broker, context: Context, missing: list[str]
) -> tuple[list[str], dict[str, ErrorCode]]:
    """The missing topics that the sender may create, and the errors of those that it may see."""
    access, session = broker.access, context.session
    if not access.is_enforced or not missing:
        return missing, {}
    topic = AclResourceType.TOPIC
    seen = [name for name in missing if access.shows(session, AclOperation.DESCRIBE, topic, name)]
    if access.shows_cluster(session, AclOperation.CREATE):
        return seen, {}
    creatable = [name for name in seen if access.allows(session, AclOperation.CREATE, topic, name)]
    denied = frozenset(seen).difference(creatable)
    return creatable, dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def _create_then_respond(
    broker: Broker,
    context: Context,
    request: MetadataRequest,
    missing: Sequence[str],
    denied: dict[str, ErrorCode],
) -> MetadataResponse:
    live = len(broker.metadata.image.live_brokers())
    new = [new_topic(name, broker.settings, live) for name in missing]
    results = await broker.metadata.create_topics(new)
    charge = broker.quotas.mutation_charge(context, is_strict=False)
    for result in results:
        if result.error.code == ErrorCode.NONE:
            charge.take(result.num_partitions)
    errors: dict[str, ErrorCode] = {
        result.name: result.error.code
        for result in results
        # TOPIC_ALREADY_EXISTS: another client created the topic meanwhile, so it can be described.
        if result.error.code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
    response = _metadata_response(broker, context, request, denied | errors)
    response.throttle_time_ms = charge.throttle_ms
    return response


def _metadata_response(
    broker: Broker, context: Context, request: MetadataRequest, errors: dict[str, ErrorCode]
) -> MetadataResponse:
    image, access, session = broker.metadata.image, broker.access, context.session
    everything = request.topics is None or (context.version == 0 and not request.topics)
    if everything:
        topics = [
            _describe_topic(topic, image.live_ids)
            for topic in image.topics.values()
            if not access.is_enforced
            or access.shows(session, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name)
        ]
    else:
        topics = [
            _denied_topic(image, access, session, asked)
            or _describe_requested(image, asked, errors)
            for asked in _unique_topics(request)
        ]
    if request.include_topic_authorized_operations:
        _add_authorized_operations(access, session, topics)
    shown = image.live_brokers()
    if broker.membership is not None and not everything:
        shown += broker.membership.crashes.recently_fenced()
    return MetadataResponse(
        brokers=_described_brokers(shown, context.connection.listener),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            access.authorized_cluster_operations(session)
            if request.include_cluster_authorized_operations
            else OPERATIONS_NOT_REQUESTED
        ),
    )


def _add_authorized_operations(
    access: AccessControl, session: Session, topics: Iterable[MetadataResponseTopic]
) -> None:
    for topic in topics:
        if topic.error_code == ErrorCode.NONE and topic.name is not None:
            topic.topic_authorized_operations = access.authorized_operations(
                session, AclResourceType.TOPIC, topic.name
            )


def _unique_topics(request: MetadataRequest) -> Iterable[MetadataRequestTopic]:
    return {(asked.name, asked.topic_id): asked for asked in request.topics or ()}.values()


def _denied_topic(
    image: MetadataImage, access: AccessControl, session: Session, asked: MetadataRequestTopic
) -> MetadataResponseTopic | None:
    """The refusal of a topic that the sender may not describe, whether it exists or not."""
    if not access.is_enforced:
        return None
    by_id = asked.topic_id != NO_TOPIC_ID
    known = image.topics_by_id.get(asked.topic_id) if by_id else None
    if by_id and known is None:
        return None
    name = (asked.name or "") if known is None else known.name
    if access.allows(session, AclOperation.DESCRIBE, AclResourceType.TOPIC, name):
        return None
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=None if by_id else name,
        topic_id=asked.topic_id,
        partitions=[],
    )


def _describe_requested(
    image: MetadataImage, asked: MetadataRequestTopic, errors: dict[str, ErrorCode]
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
        return _describe_topic(topic, image.live_ids)
    name = asked.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return _describe_topic(topic, image.live_ids)
    error = errors.get(name) or missing_topic_error(name)
    return MetadataResponseTopic(error_code=error, name=name, partitions=[])


def _describe_topic(topic: Topic, live: frozenset[int]) -> MetadataResponseTopic:
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
