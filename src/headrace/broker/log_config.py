"""From a topic's effective configuration to what its logs need."""

from collections.abc import Callable, Mapping

from headrace.cluster.configs.definition import ConfigValue
from headrace.storage.config import LogConfig

_NAMES: Mapping[str, str] = {
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


def log_config(value: Callable[[str], ConfigValue | None]) -> LogConfig:
    """`value` gives the effective value of a topic config."""
    fields: dict[str, object] = {field: value(name) for field, name in _NAMES.items()}
    policies = value("cleanup.policy")
    fields["cleanup_policy"] = frozenset(policies if isinstance(policies, tuple) else ())
    return LogConfig(**fields)  # type: ignore[arg-type]
