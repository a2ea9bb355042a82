"""The coordinators of one broker, built when the first of them is needed.

The modules of the shards are imported with the first partition that needs one: a broker starts
without them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from headrace.broker.coordinators.coordinator_runtime import CoordinatorHost, CoordinatorRuntime
from headrace.broker.coordinators.shard_loader import ShardLoader
from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import (
    GROUP_METADATA_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from headrace.records.codec import Codec
from headrace.replication.sole_leader import SoleLeader

if TYPE_CHECKING:
    from random import Random

    from headrace.broker.access.access_control import AccessControl
    from headrace.broker.coordinators.commit_batcher import CommitBatcher
    from headrace.broker.coordinators.share_group_state import (
        ShareGroupStates,
        ShareGroupStatesHost,
    )
    from headrace.broker.membership.producer_ids import ProducerIds
    from headrace.broker.network.request_meter import RequestMeters
    from headrace.broker.transactions.txn_marker_sender import TxnMarkerSender, TxnMarkerSenderHost
    from headrace.coordinator.group.group_config import GroupConfig, GroupConfigs
    from headrace.coordinator.group.group_shard import GroupShard
    from headrace.coordinator.share_state.share_state_shard import PruneLog, ShareStateShard
    from headrace.coordinator.transaction.transaction_config import TransactionConfig
    from headrace.coordinator.transaction.transaction_shard import TransactionShard

    class CoordinatorsHost(CoordinatorHost, ShareGroupStatesHost, TxnMarkerSenderHost, Protocol):
        """The part of the broker that the coordinators use.

        For type checkers only: its bases are imported with the shards that need them.
        """

        access: AccessControl
        random: Random
        producer_ids: ProducerIds
        request_meters: RequestMeters | None


class CoordinatorRegistry:
    """Groups, transactions and share state."""

    def __init__(self, host: CoordinatorsHost) -> None:
        self._host = host
        loading = ShardLoader()
        self.groups: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            host, GROUP_METADATA_TOPIC, self._group_shard, loading, self._codec("offsets.topic")
        )
        self._markers: TxnMarkerSender | None = None
        self._share_group_states: ShareGroupStates | None = None
        self.transactions: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            host, TRANSACTION_STATE_TOPIC, self._transaction_shard, loading
        )
        self.share_state: CoordinatorRuntime[ShareStateShard] = CoordinatorRuntime(
            host,
            SHARE_STATE_TOPIC,
            self._share_state_shard,
            loading,
            self._codec("share.coordinator.state.topic"),
        )
        self._all: tuple[CoordinatorRuntime[Any], ...] = (
            self.groups,
            self.transactions,
            self.share_state,
        )

    def load(self) -> None:
        """Starts loading the shards whose records earlier runs of the broker have written."""
        for coordinator in self._all:
            coordinator.load()

    def topics_changed(self, names: Collection[str]) -> None:
        """Called after topics were created, extended or deleted and the partition table has the
        change."""
        for coordinator in self._all:
            if coordinator.topic in names:
                coordinator.topic_changed()
        self.groups.run_all(lambda shard, now_ms: shard.metadata_changed(names, now_ms))
        self.share_state.run_all(lambda shard, now_ms: shard.metadata_changed(names, now_ms))

    def role_changed(self, topic: str, index: int) -> None:
        """Called when this broker starts or stops leading a partition of an internal topic."""
        for coordinator in self._all:
            if coordinator.topic == topic:
                coordinator.role_changed(index)

    def stop(self) -> None:
        if self._share_group_states is not None:
            self._share_group_states.stop()
        for coordinator in self._all:
            coordinator.stop()

    def _codec(self, prefix: str) -> Codec:
        return Codec(self._host.settings.integer(f"{prefix}.compression.codec"))

    # --- shards ---------------------------------------------------------------------------------

    def _group_shard(self, index: int) -> GroupShard:
        from headrace.broker.coordinators.regex_matching_task import PatternMatcher
        from headrace.coordinator.group.consumer.regex_subscriptions import ResolvePatterns
        from headrace.coordinator.group.group_shard import GroupShard
        from headrace.coordinator.group.share.state_initialization import InitializeState

        matcher = PatternMatcher(self.groups, self._host.loop, self._host.access)
        self.groups.on_effect(ResolvePatterns, matcher.start)
        self.groups.on_effect(InitializeState, self.share_group_states.initialize)
        return GroupShard(index, self._image, self.group_config, self._host.random)

    @property
    def share_group_states(self) -> ShareGroupStates:
        """Initializes and deletes the stored state of share groups. Built at its first use."""
        if self._share_group_states is None:
            from headrace.broker.coordinators.share_group_state import ShareGroupStates

            self._share_group_states = ShareGroupStates(self._host)
        return self._share_group_states

    @cached_property
    def commits(self) -> CommitBatcher:
        """Offset commits that may share a batch."""
        from headrace.broker.coordinators.commit_batcher import CommitBatcher

        meters = self._host.request_meters
        return CommitBatcher(self._host.loop, self.groups, self._image, meters)

    @property
    def serves_share_groups(self) -> bool:
        """Whether the cluster has enabled share groups."""
        return self._host.metadata.image.features.get("share.version", 0) >= 1

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether the cluster and this broker have enabled the consumer protocol."""
        image = self._host.metadata.image
        return image.features.get("group.version", 0) >= 1 and (
            "consumer" in self.group_config("").protocols
        )

    def _image(self) -> MetadataImage:
        return self._host.metadata.image

    def group_config(self, group_id: str) -> GroupConfig:
        """The settings of one group, from the current image."""
        return self._group_configs.for_group(self._host.metadata.image, group_id)

    @cached_property
    def _group_configs(self) -> GroupConfigs:
        from headrace.coordinator.group.group_config import GroupConfigs

        return GroupConfigs(self._host.settings.static, self._host.node_id)

    def _transaction_shard(self, index: int) -> TransactionShard:
        from headrace.coordinator.transaction.transaction_shard import TransactionShard

        self._write_markers()
        return TransactionShard(
            index,
            self._transaction_config,
            self._host.producer_ids.next_id,
            self._transaction_version,
        )

    def _transaction_version(self) -> int:
        return self._host.metadata.image.features.get("transaction.version", 0)

    @cached_property
    def _transaction_config(self) -> TransactionConfig:
        from headrace.coordinator.transaction.transaction_config import TransactionConfig

        number = self._host.settings.integer
        return TransactionConfig(
            max_timeout_ms=number("transaction.max.timeout.ms"),
            id_expiration_ms=number("transactional.id.expiration.ms"),
            abort_interval_ms=number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expiration_interval_ms=number(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ),
            two_phase_commit=self._host.settings.boolean("transaction.two.phase.commit.enable"),
        )

    def _write_markers(self) -> None:
        """Registers the effects of transactions once."""
        if self._markers is None:
            from headrace.broker.transactions.txn_marker_sender import TxnMarkerSender
            from headrace.coordinator.transaction.marker_request import (
                TransactionTimedOut,
                WriteMarkers,
            )

            self._markers = TxnMarkerSender(self._host)
            self.transactions.on_effect(TransactionTimedOut, self._markers.log_timeout)
            self.transactions.on_effect(WriteMarkers, self._markers.perform)

    def _share_state_shard(self, index: int) -> ShareStateShard:
        from headrace.coordinator.share_state.share_state_shard import (
            PruneLog,
            ShareStateConfig,
            ShareStateShard,
        )

        self.share_state.on_effect(PruneLog, self._prune)
        number = self._host.settings.integer
        prefix = "share.coordinator"
        config = ShareStateConfig(
            updates_per_snapshot=number(f"{prefix}.snapshot.update.records.per.snapshot"),
            prune_interval_ms=number(f"{prefix}.state.topic.prune.interval.ms"),
            cold_snapshot_interval_ms=number(f"{prefix}.cold.partition.snapshot.interval.ms"),
        )
        return ShareStateShard(index, self._image, config)

    def _prune(self, index: int, prune: PruneLog) -> None:
        leader = self._host.partitions.find(SHARE_STATE_TOPIC, index)
        if isinstance(leader, SoleLeader) and prune.offset > leader.log.log_start_offset:
            leader.log.delete_before(min(prune.offset, leader.high_watermark))
            leader.interrupt()
