"""ApiVersions (key 18), versions 0-4: lists the APIs, versions and features of this broker.

* v3: flexible; carries the client's software name and version.
* v4: features may have a minimum level of 0 (KIP-1022).

An unknown version gets a v0 response with UNSUPPORTED_VERSION, so that a newer client can retry
with a version that the broker serves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headrace.broker.network.api_handlers import HANDLERS
from headrace.broker.network.dispatch import Context
from headrace.cluster.features import SUPPORTED_FEATURES
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

TELEMETRY_APIS: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
FIRST_VERSION_WITH_SOFTWARE_NAME = 3
FIRST_VERSION_WITH_ZERO_LEVELS = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Broker, context: Context, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.version >= FIRST_VERSION_WITH_SOFTWARE_NAME:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
        context.connection.client_software = (name, version)
    return _served_apis(broker, context.version, ErrorCode.NONE)


def answer_unsupported_version(broker: Broker) -> ApiVersionsResponse:
    """The answer to a version that this broker does not know."""
    return _served_apis(broker, 0, ErrorCode.UNSUPPORTED_VERSION)


def _served_apis(broker: Broker, version: int, error: ErrorCode) -> ApiVersionsResponse:
    image = broker.metadata.image
    # Clients that see these APIs ask for a subscription, again and again.
    accepts_telemetry = broker.accepts_client_metrics
    keys = [
        ApiVersion(
            api_key=key, min_version=APIS[key].advertised_min, max_version=APIS[key].max_version
        )
        for key in sorted(HANDLERS)
        if not APIS[key].for_members and (key not in TELEMETRY_APIS or accepts_telemetry)
    ]
    # Clients before v4 reject a minimum level of 0 (KIP-1022), so they do not get such features.
    supported = [
        SupportedFeatureKey(
            name=feature.name, min_version=feature.min_level, max_version=feature.max_level
        )
        for feature in SUPPORTED_FEATURES
        if feature.min_level > 0 or version >= FIRST_VERSION_WITH_ZERO_LEVELS
    ]
    finalized = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in image.features.items()
    ]
    return ApiVersionsResponse(
        error_code=error,
        api_keys=keys,
        supported_features=supported,
        finalized_features_epoch=image.version,
        finalized_features=finalized,
    )
