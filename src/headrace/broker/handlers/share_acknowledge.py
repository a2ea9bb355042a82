"""ShareAcknowledge (key 79), versions 1-2: acknowledges records that a member acquired.

* v2: renews acquisition locks and returns their duration (KIP-1222).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.broker.share.share_acknowledgements import (
    acknowledge_partitions,
    add_share_leader_hints,
    checked_session_key,
    read_access,
    when_all,
)
from headrace.broker.share.share_fetch_reader import ShareRead
from headrace.broker.share.share_partition_runner import AcknowledgeOutcome
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.share_acknowledge import (
    ShareAcknowledgeLeaderIdAndEpoch,
    ShareAcknowledgeNodeEndpoint,
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from headrace.protocol.struct import Struct
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.share.share_session import FINAL_EPOCH, SharedPartition, ShareSessionError

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: ShareAcknowledgeRequest) -> Verdict:
    if request.group_id is None:
        return None  # an invalid request, which the handler refuses
    return check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)


def handle(
    broker: Broker, context: Context, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | asyncio.Future[Struct | None]:
    if not broker.coordinators.serves_share_groups:
        return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        key = checked_session_key(request.group_id, request.member_id)
        broker.shares.sessions.acknowledge(key, request.share_session_epoch)
    except ShareSessionError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    acknowledged = acknowledge_partitions(
        broker.shares,
        key,
        request.topics,
        renews=request.is_renew_ack,
        may_read=read_access(broker.access, context.session),
    )

    def answer(
        _: ShareRead, outcomes: dict[SharedPartition, AcknowledgeOutcome]
    ) -> ShareAcknowledgeResponse:
        if request.share_session_epoch == FINAL_EPOCH:
            broker.shares.close_session(key)
        config = broker.coordinators.group_config(key.group_id)
        response = ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=config.share_record_lock_duration_ms,
            responses=_topic_responses(outcomes),
        )
        add_share_leader_hints(
            response,
            broker.metadata.image,
            context.connection.listener,
            ShareAcknowledgeLeaderIdAndEpoch,
            ShareAcknowledgeNodeEndpoint,
        )
        return response

    return when_all(broker.loop, ShareRead(), acknowledged, answer)


def _topic_responses(
    outcomes: dict[SharedPartition, AcknowledgeOutcome],
) -> list[ShareAcknowledgeTopicResponse]:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), outcome in outcomes.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareAcknowledgeTopicResponse(
                topic_id=topic_id, partitions=[]
            )
        topic.partitions.append(
            ShareAcknowledgePartitionData(
                partition_index=index, error_code=outcome.code, error_message=outcome.message
            )
        )
    return list(topics.values())
