"""The interface of a manager for its shard. Each kind of group has one, and so have offsets."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.protocol.struct import Struct

Replay = Callable[[Any, Any], None]
"""Applies the key and the value (None: a tombstone) of one record type."""


class GroupManager(Protocol):
    """A manager sees only its own records and timers; its timer keys are tuples that start with its
    name."""

    @property
    def replays(self) -> Mapping[type[Struct], Replay]:
        """The replay functions by the class of the key."""
        ...

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Like `Shard.loaded`."""
        ...

    def on_timeout(self, key: tuple[Any, ...], now_ms: int) -> CoordinatorResult[None]:
        """Like `Shard.on_timeout`; `key` still starts with the manager's name."""
        ...

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> CoordinatorResult[None]:
        """Called after these topics were created, deleted, recreated or got more partitions."""
        ...

    def unload(self, error: CoordinatorError) -> None:
        """Like `Shard.unload`."""
        ...
