"""The settings of groups: the broker's, and the overrides of single groups.

If a change of the broker's bounds leaves an override outside them, the nearest bound applies, as in
Kafka.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.cluster.configs.catalog import GROUP
from headrace.cluster.configs.config_def import ConfigValue
from headrace.cluster.effective_config import EffectiveConfig
from headrace.cluster.image import MetadataImage
from headrace.cluster.resources import ConfigResourceType

_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings of one group. The defaults are Kafka's."""

    protocols: frozenset[str] = frozenset({"classic", "consumer", "streams"})

    classic_min_session_timeout_ms: int = 6_000
    classic_max_session_timeout_ms: int = 1_800_000
    classic_initial_rebalance_delay_ms: int = 3_000
    classic_max_size: int = 2**31 - 1

    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    """In lower case: disabled, downgrade, upgrade or bidirectional."""
    consumer_max_size: int = 2**31 - 1
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_regex_refresh_interval_ms: int = 600_000

    share_assignors: tuple[str, ...] = ("simple",)
    share_max_size: int = 200
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_assignment_interval_ms: int = 1_000
    share_initialize_retry_interval_ms: int = 30_000
    share_auto_offset_reset: str = "latest"
    share_isolation_level: str = "read_uncommitted"
    share_delivery_count_limit: int = 5
    share_partition_max_record_locks: int = 2_000
    share_record_lock_duration_ms: int = 30_000
    share_renew_acknowledge_enable: bool = True
    share_dead_letter_topic: str = ""
    """Empty: no dead letters."""
    share_dead_letter_copies: bool = False
    """Whether a dead letter contains the key and the value of the record."""

    offset_metadata_max_chars: int = 4_096
    """`offset.metadata.max.bytes`; Kafka counts characters."""
    offsets_retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    offsets_retention_check_interval_ms: int = 600_000

    @classmethod
    def from_overrides(cls, effective: EffectiveConfig, own: Mapping[str, str]) -> "GroupConfig":
        """The settings of a group with these overrides."""
        return _GroupConfigReader(effective, own).config()


class GroupConfigs:
    """Settings by group id in the current image; groups without overrides share one object."""

    def __init__(self, static: Mapping[str, str], node_id: int) -> None:
        self._static = static
        self._node_id = node_id
        self._image: MetadataImage | None = None
        self._default = GroupConfig()
        self._own: dict[str, GroupConfig] = {}

    def for_group(self, image: MetadataImage, group_id: str) -> GroupConfig:
        if image is not self._image:
            self._refresh(image)
        return self._own.get(group_id, self._default)

    def _refresh(self, image: MetadataImage) -> None:
        previous, self._image = self._image, image
        if previous is not None and previous.configs is image.configs:
            return
        effective = EffectiveConfig(self._static, self._node_id, image)
        self._default = GroupConfig.from_overrides(effective, {})
        self._own = {
            resource.name: GroupConfig.from_overrides(effective, own)
            for resource, own in image.configs.items()
            if resource.type is ConfigResourceType.GROUP
        }


class _GroupConfigReader:
    """Finds values: the group's override within the broker's bounds, else the broker's value."""

    def __init__(self, effective: EffectiveConfig, own: Mapping[str, str]) -> None:
        self._effective = effective
        self._own = own

    def config(self) -> GroupConfig:
        return GroupConfig(
            protocols=frozenset(self._names("group.coordinator.rebalance.protocols")),
            classic_min_session_timeout_ms=self._number("group.min.session.timeout.ms"),
            classic_max_session_timeout_ms=self._number("group.max.session.timeout.ms"),
            classic_initial_rebalance_delay_ms=self._number("group.initial.rebalance.delay.ms"),
            classic_max_size=self._number("group.max.size"),
            consumer_assignors=self._names("group.consumer.assignors"),
            consumer_migration_policy=self._text("group.consumer.migration.policy").lower(),
            consumer_max_size=self._number("group.consumer.max.size"),
            consumer_session_timeout_ms=self._bounded("consumer", "session.timeout.ms"),
            consumer_heartbeat_interval_ms=self._bounded("consumer", "heartbeat.interval.ms"),
            consumer_assignment_interval_ms=self._bounded("consumer", "assignment.interval.ms"),
            consumer_regex_refresh_interval_ms=self._number(
                "group.consumer.regex.refresh.interval.ms"
            ),
            share_assignors=self._names("group.share.assignors"),
            share_max_size=self._number("group.share.max.size"),
            share_session_timeout_ms=self._bounded("share", "session.timeout.ms"),
            share_heartbeat_interval_ms=self._bounded("share", "heartbeat.interval.ms"),
            share_assignment_interval_ms=self._bounded("share", "assignment.interval.ms"),
            share_initialize_retry_interval_ms=self._number(
                "group.share.initialize.retry.interval.ms"
            ),
            share_auto_offset_reset=str(self._own_value("share.auto.offset.reset")),
            share_isolation_level=str(self._own_value("share.isolation.level")),
            share_delivery_count_limit=self._bounded("share", "delivery.count.limit"),
            share_partition_max_record_locks=self._bounded("share", "partition.max.record.locks"),
            share_record_lock_duration_ms=self._bounded("share", "record.lock.duration.ms"),
            share_renew_acknowledge_enable=bool(self._own_value("share.renew.acknowledge.enable")),
            share_dead_letter_topic=str(self._own_value("errors.deadletterqueue.topic.name") or ""),
            share_dead_letter_copies=bool(
                self._own_value("errors.deadletterqueue.copy.record.enable")
            ),
            offset_metadata_max_chars=self._number("offset.metadata.max.bytes"),
            offsets_retention_ms=self._number("offsets.retention.minutes") * _MINUTE_MS,
            offsets_retention_check_interval_ms=self._number("offsets.retention.check.interval.ms"),
        )

    def _own_value(self, name: str) -> ConfigValue | None:
        """The value of a setting that only groups have."""
        definition = GROUP[name]
        text = self._own.get(name, definition.default)
        return None if text is None else definition.parse(text)

    def _bounded(self, kind: str, setting: str) -> int:
        text = self._own.get(f"{kind}.{setting}")
        if text is None:
            return self._number(f"group.{kind}.{setting}")
        low = self._number(f"group.{kind}.min.{setting}")
        high = self._number(f"group.{kind}.max.{setting}")
        return min(max(int(text), low), high)

    def _number(self, name: str) -> int:
        value = self._effective.broker_value(name)
        assert isinstance(value, int)
        return value

    def _text(self, name: str) -> str:
        value = self._effective.broker_value(name)
        assert isinstance(value, str)
        return value

    def _names(self, name: str) -> tuple[str, ...]:
        value = self._effective.broker_value(name)
        assert isinstance(value, tuple)
        return value
