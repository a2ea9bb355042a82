"""Features move between the levels that this release supports, and only as the client allows."""

import pytest

from headrace.cluster.features import DEFAULT_LEVELS, SUPPORTED_FEATURES
from headrace.controller.feature_changes import FeatureUpdate, UpgradeType
from headrace.protocol.errors import ErrorCode
from support.brokers.controllers import commit, controller

UPGRADE, SAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE
PREFIX = "The update failed for all features since the following feature had an error: "


def test_a_new_cluster_has_the_feature_levels_of_kafka_4_3() -> None:
    features = controller().image.features
    assert features["transaction.version"] == 2
    assert features["group.version"] == features["share.version"] == 1
    assert features["metadata.version"] == 30


def test_the_default_levels_are_supported() -> None:
    supported = {item.name: item for item in SUPPORTED_FEATURES}
    for name, level in DEFAULT_LEVELS.items():
        assert supported[name].min_level <= level <= supported[name].max_level


def test_a_feature_can_be_downgraded_and_upgraded() -> None:
    made = controller()
    down = [FeatureUpdate("transaction.version", 1, SAFE), FeatureUpdate("group.version", 0, SAFE)]
    assert commit(made, made.update_features(down)).code == ErrorCode.NONE
    assert made.image.features["transaction.version"] == 1
    assert "group.version" not in made.image.features
    up = [FeatureUpdate("group.version", 1, UPGRADE)]
    assert commit(made, made.update_features(up)).code == ErrorCode.NONE
    assert made.image.features["group.version"] == 1


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (
            FeatureUpdate("transaction.version", 3),
            (
                "Invalid update version 3 for feature transaction.version. Local controller 1 only "
                "supports versions 0-2"
            ),
        ),
        (
            FeatureUpdate("foo", 1),
            (
                "Invalid update version 1 for feature foo. Local controller 1 does not support "
                "this feature."
            ),
        ),
        (
            FeatureUpdate("transaction.version", 1),
            (
                "Invalid update version 1 for feature transaction.version. Can't downgrade the "
                "version of this feature without setting the upgrade type to either "
                "safe or unsafe downgrade."
            ),
        ),
        (
            FeatureUpdate("metadata.version", 29, UpgradeType.UNSAFE_DOWNGRADE),
            (
                "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the "
                "requested downgrade because it might delete metadata information."
            ),
        ),
        (
            FeatureUpdate("eligible.leader.replicas.version", 1, SAFE),
            (
                "Invalid update version 1 for feature eligible.leader.replicas.version. Can't "
                "downgrade to a newer version."
            ),
        ),
        (
            FeatureUpdate("group.version", 1, 9),
            (
                "Invalid update version 1 for feature group.version. The controller does not "
                "support the given upgrade type."
            ),
        ),
    ],
)
def test_one_invalid_update_refuses_all_updates(update: FeatureUpdate, message: str) -> None:
    made = controller()
    good = FeatureUpdate("share.version", 0, SAFE)
    outcome = made.update_features([good, update])
    assert outcome.records == ()
    assert outcome.results == [(ErrorCode.INVALID_UPDATE_VERSION, PREFIX + message)]


def test_validate_only_changes_nothing() -> None:
    outcome = controller().update_features(
        [FeatureUpdate("share.version", 0, SAFE)], validate_only=True
    )
    assert outcome.records == ()
    assert outcome.results[0].code == ErrorCode.NONE


def test_a_feature_named_twice_is_refused() -> None:
    update = FeatureUpdate("share.version", 0, SAFE)
    outcome = controller().update_features([update, update])
    assert outcome.records == ()
    assert outcome.results[0].code == ErrorCode.INVALID_REQUEST
