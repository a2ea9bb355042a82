"""DeleteTopics (key 20), versions 1-6: deletes topics.

* v5: error messages.
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

FIRST_VERSION_WITH_IDS: Final = 6


async def handle(
    broker: Broker, context: Context, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    if context.version >= FIRST_VERSION_WITH_IDS:
        refs = [TopicRef(topic.name, topic.topic_id) for topic in request.topics]
    else:
        refs = [TopicRef(name) for name in request.topic_names]
    results = await broker.metadata.decide(lambda controller: controller.delete_topics(refs))
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=deleted.name,
                topic_id=deleted.topic_id,
                error_code=deleted.error.code,
                error_message=deleted.error.message,
            )
            for deleted in results
        ]
    )
