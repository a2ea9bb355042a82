"""DeleteTopics (key 20), versions 1-6: deletes topics.

* v5: error messages. A topic over the client's `controller_mutation_rate` is refused (KIP-599).
* v6: topics by name or by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.controller.topic_changes import TopicRef
from headrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_STRICT_QUOTA: Final = 5
FIRST_VERSION_WITH_IDS: Final = 6


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
    results = await broker.metadata.decide(
        lambda controller: controller.delete_topics(refs, charge=charge.take)
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
