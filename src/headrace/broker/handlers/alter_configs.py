"""AlterConfigs (key 33), versions 0-2: replaces a resource's configs.

Configs that the request does not name return to their defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.access.config_access import filter_configs
from headrace.broker.metadata.change_log import decide_logged
from headrace.broker.network.dispatch import Context
from headrace.controller.config_changes import ConfigAlteration, ConfigOp
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from headrace.security.authorization.acl import AclOperation

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: AlterConfigsRequest) -> Verdict:
    return filter_configs(check, request.resources, AclOperation.ALTER_CONFIGS)


async def handle(
    broker: Broker, context: Context, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    alterations = [
        ConfigAlteration(
            resource.resource_type,
            resource.resource_name,
            [ConfigOp(config.name, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    results = await decide_logged(
        broker.metadata,
        context,
        ApiKey.ALTER_CONFIGS,
        lambda controller: controller.alter_configs(
            alterations, validate_only=request.validate_only
        ),
    )
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=result.error.code,
                error_message=result.error.message,
                resource_type=result.resource_type,
                resource_name=result.resource_name,
            )
            for result in results
        ]
    )
