"""DescribeClientQuotas (key 48), versions 0-1: lists client quotas that match a filter.

* v1: flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasEntityData,
    DescribeClientQuotasEntryData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    ValueData,
)
from headrace.security.quotas.quota_filter import (
    Component,
    InvalidFilter,
    QuotaFilter,
    UnsupportedEntityType,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    components = [
        Component(each.entity_type, each.match_type, each.match) for each in request.components
    ]
    try:
        wanted = QuotaFilter(components, strict=request.strict)
    except InvalidFilter as error:
        return _refusal(ErrorCode.INVALID_REQUEST, error)
    except UnsupportedEntityType as error:
        return _refusal(ErrorCode.UNSUPPORTED_VERSION, error)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            DescribeClientQuotasEntryData(
                entity=[
                    DescribeClientQuotasEntityData(entity_type=type_, entity_name=name)
                    for type_, name in entity.parts
                ],
                values=[ValueData(key=key, value=value) for key, value in limits.items()],
            )
            for entity, limits in wanted.matching(broker.metadata.image.quotas)
        ],
    )


def _refusal(code: ErrorCode, error: Exception) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=str(error), entries=None)
