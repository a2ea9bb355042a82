"""CreatePartitions (key 37), versions 0-3: adds partitions to topics.

* v3: a topic over the client's `controller_mutation_rate` is refused (KIP-599).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.metadata.change_log import decide_logged
from headrace.broker.network.dispatch import Context
from headrace.controller.topic_changes import MorePartitions
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from headrace.security.authorization.acl import AclOperation

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_STRICT_QUOTA: Final = 3


def authorize(broker: Broker, check: RequestCheck, request: CreatePartitionsRequest) -> Verdict:
    return check.filter_topics(AclOperation.ALTER)


async def handle(
    broker: Broker, context: Context, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    growths = [
        MorePartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [each.broker_ids for each in topic.assignments],
        )
        for topic in request.topics
    ]
    charge = broker.quotas.mutation_charge(
        context, is_strict=context.version >= FIRST_VERSION_WITH_STRICT_QUOTA
    )
    results = await decide_logged(
        broker.metadata,
        context,
        ApiKey.CREATE_PARTITIONS,
        lambda controller: controller.create_partitions(
            growths, validate_only=request.validate_only, charge=charge.take
        ),
    )
    return CreatePartitionsResponse(
        throttle_time_ms=charge.throttle_ms,
        results=[
            CreatePartitionsTopicResult(
                name=grown.name, error_code=grown.error.code, error_message=grown.error.message
            )
            for grown in results
        ],
    )
