"""CreateTopics (key 19), versions 2-7: creates topics.

* v5: the response has the topic's configs.
* v6: a topic over the client's `controller_mutation_rate` is refused (KIP-599).
* v7: the response has the topic id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.metadata.change_log import decide_logged
from headrace.broker.network.dispatch import Context
from headrace.controller.topic_changes import CreatedTopic, NewTopic
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_CONFIGS: Final = 5
FIRST_VERSION_WITH_STRICT_QUOTA: Final = 6
UNKNOWN: Final = -1
_DENIED: Final = "Authorization failed."  # Kafka's message


def authorize(broker: Broker, check: RequestCheck, request: CreateTopicsRequest) -> Verdict:
    names = [topic.name for topic in request.topics]
    denied: frozenset[str] = frozenset()
    if not check.access.shows_cluster(check.session, AclOperation.CREATE):
        denied = check.denied_names(AclOperation.CREATE, AclResourceType.TOPIC, names)
    hidden = check.hidden_names(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, names)

    def hide_configs(response: CreateTopicsResponse) -> None:
        for topic in response.topics:
            if topic.name in hidden and not topic.error_code:
                topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                topic.num_partitions = topic.replication_factor = UNKNOWN
                topic.configs = []

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return check.and_change(
        check.remove_parts("topics", lambda topic: topic.name in denied, code, _DENIED),
        hide_configs,
    )


async def handle(
    broker: Broker, context: Context, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    new = [
        NewTopic(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            [(each.partition_index, each.broker_ids) for each in topic.assignments],
            [(each.name, each.value) for each in topic.configs],
        )
        for topic in request.topics
    ]
    configs = {
        topic.name: {name: value for name, value in topic.configs if value is not None}
        for topic in new
    }
    charge = broker.quotas.mutation_charge(
        context, is_strict=context.version >= FIRST_VERSION_WITH_STRICT_QUOTA
    )
    results = await decide_logged(
        broker.metadata,
        context,
        ApiKey.CREATE_TOPICS,
        lambda controller: controller.create_topics(
            new, validate_only=request.validate_only, charge=charge.take
        ),
    )
    with_configs = context.version >= FIRST_VERSION_WITH_CONFIGS
    return CreateTopicsResponse(
        throttle_time_ms=charge.throttle_ms,
        topics=[
            _topic_result(broker, created, configs[created.name] if with_configs else None)
            for created in results
        ],
    )


def _topic_result(
    broker: Broker, created: CreatedTopic, configs: dict[str, str] | None
) -> CreatableTopicResult:
    result = CreatableTopicResult(
        name=created.name,
        topic_id=created.topic_id,
        error_code=created.error.code,
        error_message=created.error.message,
        num_partitions=created.num_partitions,
        replication_factor=created.replication_factor,
        configs=[],
    )
    if configs is not None and created.error.code == ErrorCode.NONE:
        result.configs = [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in broker.metadata.configs.effective.describe_topic(configs)
        ]
    return result
