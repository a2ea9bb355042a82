"""UpdateFeatures: which changes of finalized feature levels the controller accepts. Pure."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from headrace.cluster.features import FEATURES_BY_NAME, METADATA_VERSION
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import FeatureSet, MetadataRecord
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult
from headrace.protocol.errors import ErrorCode


class UpgradeType(IntEnum):
    """The changes of a level that a client allows."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A request to finalize a feature at a level; `upgrade_type` as on the wire."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def update_features(
    image: MetadataImage, updates: Sequence[FeatureUpdate], *, node_id: int
) -> ControllerResult[ApiError]:
    """One result for the whole request: all updates happen, or none."""
    records: list[MetadataRecord] = []
    seen: set[str] = set()
    for update in updates:
        error = _feature_error(image, update, node_id)
        if update.name in seen:
            error = ApiError(ErrorCode.INVALID_REQUEST, f"{update.name} is named twice.")
        if error.code != ErrorCode.NONE:
            message = (
                "The update failed for all features since the following feature had an error: "
                f"{error.message}"
            )
            return ControllerResult((), [ApiError(error.code, message)])
        seen.add(update.name)
        if image.features.get(update.name, 0) != update.level:
            records.append(FeatureSet(update.name, update.level))
    return ControllerResult(tuple(records), [NO_ERROR])


def _feature_error(image: MetadataImage, update: FeatureUpdate, node_id: int) -> ApiError:
    prefix = f"Invalid update version {update.level} for feature {update.name}."
    feature = FEATURES_BY_NAME.get(update.name)
    if feature is None:
        return _refused(f"{prefix} Local controller {node_id} does not support this feature.")
    if not feature.min_level <= update.level <= feature.max_level:
        return _refused(
            f"{prefix} Local controller {node_id} only supports versions "
            f"{feature.min_level}-{feature.max_level}"
        )
    current = image.features.get(update.name, 0)
    if update.upgrade_type == UpgradeType.UPGRADE:
        if update.level < current:
            return _refused(
                f"{prefix} Can't downgrade the version of this feature without setting the "
                "upgrade type to either safe or unsafe downgrade."
            )
    elif update.upgrade_type in (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        if update.level > current:
            return _refused(f"{prefix} Can't downgrade to a newer version.")
        if update.name == METADATA_VERSION and update.level < current:
            return _refused(
                f"Unsupported metadata.version downgrade from {current} to {update.level}. "
                "Refusing to perform the requested downgrade because it might delete metadata "
                "information."
            )
    else:
        return _refused(f"{prefix} The controller does not support the given upgrade type.")
    return NO_ERROR


def _refused(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, message)
