"""The groups of one partition of `__consumer_offsets`.

Each kind of group has its manager: `classic`, `consumer`, `share`. `offsets` keeps committed
offsets, `directory` lists and deletes groups of any kind. `groups` is the table of all groups:
managers add and remove entries when they replay their records.
"""

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Sized
from random import Random
from typing import Any

from headrace.cluster.image import MetadataImage
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange, RecordFormat
from headrace.coordinator.common.result import CoordinatorResult, ProducerIdentity
from headrace.coordinator.group.classic.classic_group_manager import ClassicGroupManager
from headrace.coordinator.group.consumer.consumer_group_manager import ConsumerGroupManager
from headrace.coordinator.group.group import Group
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.group_listing import GroupListing
from headrace.coordinator.group.group_manager import GroupManager, Replay
from headrace.coordinator.group.offsets.offset_manager import OffsetManager
from headrace.coordinator.group.records.format import FORMAT
from headrace.coordinator.group.records.offsets import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from headrace.coordinator.group.share.share_group_manager import ShareGroupManager
from headrace.protocol.struct import Struct


class GroupShard:
    """Implements `Shard`."""

    def __init__(
        self,
        index: int,
        image: Callable[[], MetadataImage],
        config: Callable[[str], GroupConfig],
        random: Random,
    ) -> None:
        self.index = index
        self.image = image
        self.config = config
        self.random = random
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetManager(self.groups, image, config)
        self.listing = GroupListing(self.groups, self.offsets.state)
        self.classic = ClassicGroupManager(self)
        self.consumer = ConsumerGroupManager(self)
        self.share = ShareGroupManager(self)
        self._managers: dict[str, GroupManager] = {
            "classic": self.classic,
            "consumer": self.consumer,
            "share": self.share,
            "offsets": self.offsets,
        }
        self._replays: dict[type[Struct], Replay] = {
            key: replay
            for manager in self._managers.values()
            for key, replay in manager.replays.items()
        }

    @property
    def format(self) -> RecordFormat:
        return FORMAT

    @property
    def entries(self) -> Sized:
        return self.groups

    def replay(self, offset: int, change: RecordChange, producer: ProducerIdentity | None) -> None:
        key, value = change
        if type(key) is OffsetCommitKey or type(key) is LegacyOffsetCommitKey:
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None and key.group_id not in self.groups:
                self.groups[key.group_id] = self.classic.simple_group(key.group_id)
            self.offsets.state.replay(offset, key, value, producer)
            return
        replay = self._replays.get(type(key))
        if replay is not None:
            replay(key, value)

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Ends the transaction's offset commits; no other records are written in transactions."""
        self.offsets.state.end_transaction(producer, committed=committed)

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        return _merge(manager.loaded(now_ms) for manager in self._managers.values())

    @property
    def expirations(self) -> Container[Hashable]:
        return self.offsets.expirations

    def on_timeout(self, key: Hashable, now_ms: int) -> CoordinatorResult[None]:
        assert isinstance(key, tuple)
        return self._managers[key[0]].on_timeout(key, now_ms)

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> CoordinatorResult[None]:
        """Called after these topics were created, deleted, recreated or got more partitions."""
        return _merge(
            manager.metadata_changed(topics, now_ms) for manager in self._managers.values()
        )

    def unload(self, error: CoordinatorError) -> None:
        for manager in self._managers.values():
            manager.unload(error)


def _merge(results: Iterable[CoordinatorResult[None]]) -> CoordinatorResult[None]:
    """Merges results that have no response."""
    every = list(results)
    undos = [result.undo for result in every if result.undo is not None]

    def undo(error: CoordinatorError) -> None:
        for undo_one in undos:
            undo_one(error)

    def joined(name: str) -> list[Any]:
        return [item for result in every for item in getattr(result, name)]

    return CoordinatorResult(
        None,
        changes=joined("changes"),
        completions=joined("completions"),
        timers=joined("timers"),
        effects=joined("effects"),
        undo=undo if undos else None,
    )
