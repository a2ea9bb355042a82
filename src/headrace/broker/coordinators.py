"""The coordinators of one broker, built when the first of them is needed.

Shards are imported with the first partition that needs one: a broker starts without them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.broker.coordinator import Coordinator
from headrace.broker.coordinator_loading import Loading
from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import (
    GROUP_METADATA_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from headrace.coordinator.errors import CoordinatorError
from headrace.coordinator.shard import Shard
from headrace.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.broker.node import Broker
    from headrace.groups.config import GroupConfig, GroupConfigs
    from headrace.groups.shard import GroupShard


class Coordinators:
    """Groups, transactions and share state."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        loading = Loading()
        self.groups: Coordinator[GroupShard] = Coordinator(
            broker, GROUP_METADATA_TOPIC, self._group_shard, loading
        )
        self.transactions: Coordinator[Shard] = Coordinator(
            broker, TRANSACTION_STATE_TOPIC, self._transaction_shard, loading
        )
        self.share_state: Coordinator[Shard] = Coordinator(
            broker, SHARE_STATE_TOPIC, self._share_state_shard, loading
        )
        self._all = (self.groups, self.transactions, self.share_state)

    def load(self) -> None:
        """Starts loading what earlier runs have left."""
        for coordinator in self._all:
            coordinator.load()

    def topics_changed(self, names: Collection[str]) -> None:
        """Topics were created, grown or deleted, and the partition table knows it."""
        for coordinator in self._all:
            if coordinator.topic in names:
                coordinator.topic_changed()
        self.groups.run_all(lambda shard, now_ms: shard.metadata_changed(names, now_ms))

    def stop(self) -> None:
        for coordinator in self._all:
            coordinator.stop()

    # --- shards ---------------------------------------------------------------------------------

    def _group_shard(self, index: int) -> GroupShard:
        from headrace.groups.shard import GroupShard

        return GroupShard(index, self._image, self._group_config, self._broker.random)

    def _image(self) -> MetadataImage:
        return self._broker.metadata.image

    def _group_config(self, group_id: str) -> GroupConfig:
        return self._group_configs.of(self._broker.metadata.image, group_id)

    @cached_property
    def _group_configs(self) -> GroupConfigs:
        from headrace.groups.config import GroupConfigs

        return GroupConfigs(self._broker.settings.static, self._broker.node_id)

    def _transaction_shard(self, index: int) -> Shard:
        raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _share_state_shard(self, index: int) -> Shard:
        raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
