"""Translates a topic's effective configuration to the configuration of its logs."""

from collections.abc import Mapping
from typing import Final

from headrace.cluster.configs.config_def import ConfigValue
from headrace.cluster.effective_config import EffectiveConfig
from headrace.cluster.image import MetadataImage
from headrace.cluster.resources import topic_resource
from headrace.storage.state.log_config import LogConfig

_SCALARS: Final = {
    "segment_bytes": "segment.bytes",
    "segment_ms": "segment.ms",
    "segment_jitter_ms": "segment.jitter.ms",
    "segment_index_bytes": "segment.index.bytes",
    "index_interval_bytes": "index.interval.bytes",
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
    "max_message_bytes": "max.message.bytes",
    "message_timestamp_type": "message.timestamp.type",
    "message_timestamp_before_max_ms": "message.timestamp.before.max.ms",
    "message_timestamp_after_max_ms": "message.timestamp.after.max.ms",
    "flush_messages": "flush.messages",
    "flush_ms": "flush.ms",
    "file_delete_delay_ms": "file.delete.delay.ms",
    "preallocate": "preallocate",
    "compression_type": "compression.type",
    "delete_retention_ms": "delete.retention.ms",
    "min_compaction_lag_ms": "min.compaction.lag.ms",
    "max_compaction_lag_ms": "max.compaction.lag.ms",
    "min_cleanable_dirty_ratio": "min.cleanable.dirty.ratio",
    "min_insync_replicas": "min.insync.replicas",
    "unclean_leader_election_enable": "unclean.leader.election.enable",
}


class LogConfigs:
    """Log configurations of one image; topics without topic-level settings share one object."""

    def __init__(self, static: Mapping[str, str], node_id: int) -> None:
        self._static = static
        self._node_id = node_id
        self._image: MetadataImage | None = None

    def config_of(self, image: MetadataImage, topic: str) -> LogConfig:
        if image is not self._image:
            self._image = image
            self._effective = EffectiveConfig(self._static, self._node_id, image)
            self._default: LogConfig | None = None
        if image.config(topic_resource(topic)):
            return log_config(self._effective.topic_values(topic))
        if self._default is None:
            self._default = log_config(self._effective.topic_defaults)
        return self._default


def log_config(values: Mapping[str, ConfigValue]) -> LogConfig:
    fields: dict[str, object] = {field: values[name] for field, name in _SCALARS.items()}
    policies = values["cleanup.policy"]
    assert isinstance(policies, tuple)
    return LogConfig(cleanup_policy=frozenset(policies), **fields)  # type: ignore[arg-type]
