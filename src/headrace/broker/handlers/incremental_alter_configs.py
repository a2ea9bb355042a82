"""IncrementalAlterConfigs (key 44), versions 0-1: sets, deletes, appends or subtracts configs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.access.config_access import filter_configs
from headrace.broker.metadata.change_log import decide_logged
from headrace.broker.network.dispatch import Context
from headrace.controller.config_changes import ConfigAlteration, ConfigOp
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.security.authorization.acl import AclOperation

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(
    broker: Broker, check: RequestCheck, request: IncrementalAlterConfigsRequest
) -> Verdict:
    return filter_configs(check, request.resources, AclOperation.ALTER_CONFIGS)


async def handle(
    broker: Broker, context: Context, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    alterations = [
        ConfigAlteration(
            resource.resource_type,
            resource.resource_name,
            [
                ConfigOp(config.name, config.value, config.config_operation)
                for config in resource.configs
            ],
        )
        for resource in request.resources
    ]
    results = await decide_logged(
        broker.metadata,
        context,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda controller: controller.incremental_alter_configs(
            alterations, validate_only=request.validate_only
        ),
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsAlterConfigsResourceResponse(
                error_code=result.error.code,
                error_message=result.error.message,
                resource_type=result.resource_type,
                resource_name=result.resource_name,
            )
            for result in results
        ]
    )
