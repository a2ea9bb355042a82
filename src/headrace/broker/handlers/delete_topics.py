"""DeleteTopics (key 20), versions 1-6: deletes topics.

* v5: error messages. A topic over the client's `controller_mutation_rate` is refused (KIP-599).
* v6: topics by name or by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.metadata.change_log import decide_logged
from headrace.broker.network.dispatch import Context
from headrace.controller.topic_changes import TopicRef
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_STRICT_QUOTA: Final = 5
FIRST_VERSION_WITH_IDS: Final = 6


def authorize(broker: Broker, check: RequestCheck, request: DeleteTopicsRequest) -> Verdict:
    if check.access.shows_cluster(check.session, AclOperation.DELETE):
        return None
    if check.version < FIRST_VERSION_WITH_IDS:
        return check.filter_names("topic_names", AclOperation.DELETE, AclResourceType.TOPIC)
    by_id = broker.metadata.image.topics_by_id

    def names_of(asked: DeleteTopicState) -> tuple[str, ...]:
        topic = by_id.get(asked.topic_id)
        by_name = () if asked.name is None else (asked.name,)
        return by_name if topic is None else (topic.name, *by_name)

    asked_names = [name for topic in request.topics for name in names_of(topic)]
    denied = check.denied_names(AclOperation.DELETE, AclResourceType.TOPIC, asked_names)
    hidden = check.hidden_names(AclOperation.DESCRIBE, AclResourceType.TOPIC, denied)
    for topic in request.topics:
        known = by_id.get(topic.topic_id)
        if known is not None and known.name in denied and known.name not in hidden:
            topic.name = known.name  # only for the response: the topic is not deleted
    return check.remove_parts("topics", lambda topic: not denied.isdisjoint(names_of(topic)))


async def handle(
    broker: Broker, context: Context, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    if context.version >= FIRST_VERSION_WITH_IDS:
        refs = [TopicRef(topic.name, topic.topic_id) for topic in request.topics]
    else:
        refs = [TopicRef(name) for name in request.topic_names]
    charge = broker.quotas.mutation_charge(
        context, is_strict=context.version >= FIRST_VERSION_WITH_STRICT_QUOTA
    )
    results = await decide_logged(
        broker.metadata,
        context,
        ApiKey.DELETE_TOPICS,
        lambda controller: controller.delete_topics(refs, charge=charge.take),
    )
    return DeleteTopicsResponse(
        throttle_time_ms=charge.throttle_ms,
        responses=[
            DeletableTopicResult(
                name=deleted.name,
                topic_id=deleted.topic_id,
                error_code=deleted.error.code,
                error_message=deleted.error.message,
            )
            for deleted in results
        ],
    )
