"""DescribeConfigs (key 32), versions 1-4: describes configs with their sources.

* v3: types and documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.access.config_access import filter_configs
from headrace.broker.maintenance.broker_loggers import describe_loggers
from headrace.broker.network.dispatch import Context
from headrace.cluster.effective_config import EffectiveEntry
from headrace.cluster.resources import ConfigResourceType
from headrace.controller.config_changes import DescribedConfig
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from headrace.security.authorization.acl import AclOperation

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: DescribeConfigsRequest) -> Verdict:
    return filter_configs(check, request.resources, AclOperation.DESCRIBE_CONFIGS)


def handle(
    broker: Broker, context: Context, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    configs = broker.metadata.configs

    def describe(asked: DescribeConfigsResource) -> DescribedConfig:
        names = asked.configuration_keys or None
        if asked.resource_type == ConfigResourceType.BROKER_LOGGER:
            return describe_loggers(broker.node_id, asked.resource_name, names)
        return configs.describe(asked.resource_type, asked.resource_name, names)

    return DescribeConfigsResponse(
        results=[_resource_result(request, asked, describe(asked)) for asked in request.resources]
    )


def _resource_result(
    request: DescribeConfigsRequest, asked: DescribeConfigsResource, described: DescribedConfig
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=described.error.code,
        error_message=described.error.message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[_config_entry(request, entry) for entry in described.entries],
    )


def _config_entry(
    request: DescribeConfigsRequest, entry: EffectiveEntry
) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
    return result
