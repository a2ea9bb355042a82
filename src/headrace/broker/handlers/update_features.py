"""UpdateFeatures (key 57), versions 0-2: changes finalized feature levels.

* v0: `allow_downgrade`; later versions have an upgrade type.
* v2: one error code for the whole request, without results per feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.metadata.change_log import decide_logged
from headrace.broker.network.dispatch import Context
from headrace.controller.feature_changes import FeatureUpdate, UpgradeType
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

LAST_VERSION_WITH_RESULTS = 1


async def handle(
    broker: Broker, context: Context, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    updates = [_feature_update(context.version, update) for update in request.feature_updates]
    results = await decide_logged(
        broker.metadata,
        context,
        ApiKey.UPDATE_FEATURES,
        lambda controller: controller.update_features(updates, validate_only=request.validate_only),
    )
    error = results[0]
    response = UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    if context.version <= LAST_VERSION_WITH_RESULTS and error.code == ErrorCode.NONE:
        response.results = [UpdatableFeatureResult(feature=update.name) for update in updates]
    return response


def _feature_update(version: int, update: FeatureUpdateKey) -> FeatureUpdate:
    kind: int
    if version == 0:
        kind = UpgradeType.UNSAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    else:
        kind = update.upgrade_type
    return FeatureUpdate(update.feature, update.max_version_level, kind)
