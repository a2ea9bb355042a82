"""The settings of groups: the broker's, and a group's own within the broker's bounds."""

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import ConfigChanged
from headrace.cluster.resources import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType
from headrace.coordinator.group.group_config import GroupConfig, GroupConfigs

MINE = ConfigResource(ConfigResourceType.GROUP, "mine")


def image(**values: str) -> MetadataImage:
    """One in which the group "mine" has these values of its own."""
    return MetadataImage().apply(
        [ConfigChanged(MINE, name.replace("_", "."), value) for name, value in values.items()]
    )


def test_the_defaults_are_those_of_the_settings() -> None:
    assert GroupConfigs({}, 1).for_group(MetadataImage(), "any") == GroupConfig()


def test_the_brokers_settings_count_for_all_groups() -> None:
    static = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignors": "range",
        "group.consumer.migration.policy": "UPGRADE",
        "offsets.retention.minutes": "2",
        "offset.metadata.max.bytes": "10",
    }
    config = GroupConfigs(static, 1).for_group(MetadataImage(), "any")
    assert config.classic_initial_rebalance_delay_ms == 0
    assert config.consumer_assignors == ("range",)
    assert config.consumer_migration_policy == "upgrade"
    assert config.offsets_retention_ms == 120_000
    assert config.offset_metadata_max_chars == 10


def test_a_groups_own_values_count_for_it_alone() -> None:
    own = image(consumer_session_timeout_ms="50000", share_auto_offset_reset="earliest")
    configs = GroupConfigs({}, 1)
    assert configs.for_group(own, "mine").consumer_session_timeout_ms == 50_000
    assert configs.for_group(own, "mine").share_auto_offset_reset == "earliest"
    assert configs.for_group(own, "other") == GroupConfig()


def test_an_own_value_outside_the_bounds_counts_as_the_nearest_bound() -> None:
    own = image(consumer_session_timeout_ms="50000", share_delivery_count_limit="2")
    static = {
        "group.consumer.max.session.timeout.ms": "48000",
        "group.share.min.delivery.count.limit": "4",
    }
    config = GroupConfigs(static, 1).for_group(own, "mine")
    assert config.consumer_session_timeout_ms == 48_000
    assert config.share_delivery_count_limit == 4


def test_a_change_of_the_image_is_seen() -> None:
    configs = GroupConfigs({}, 1)
    before = image()
    assert configs.for_group(before, "mine").consumer_assignment_interval_ms == 1_000
    own = ConfigChanged(MINE, "consumer.assignment.interval.ms", "5000")
    after = before.apply([own])
    assert configs.for_group(after, "mine").consumer_assignment_interval_ms == 5_000
    name = "group.consumer.assignment.interval.ms"
    cluster = after.apply([ConfigChanged(CLUSTER_DEFAULT, name, "7000")])
    assert configs.for_group(cluster, "mine").consumer_assignment_interval_ms == 5_000
    assert configs.for_group(cluster, "other").consumer_assignment_interval_ms == 7_000
