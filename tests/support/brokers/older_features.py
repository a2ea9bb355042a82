"""A broker with the features of an older cluster."""

from headrace.client.client import ClusterClient, ToController
from headrace.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from headrace.testing.helper import Headrace

SAFE_DOWNGRADE = 2


def without_second_protocol(helper: Headrace) -> None:
    """Sets the broker to the transaction protocol before KIP-890."""

    async def lower(client: ClusterClient) -> int:
        update = FeatureUpdateKey(
            feature="transaction.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE
        )
        answer = await client.send(
            UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update]),
            UpdateFeaturesResponse,
            to=ToController(),
        )
        return answer.error_code

    assert helper._call(lower) == 0
