"""The log of a coordinator's shards: one line for all that load, or are unloaded, together."""

import logging
from collections.abc import Callable, Sized

from headrace.log_event import examples

log = logging.getLogger(__package__)


class LoadLog:
    """The shards of one internal topic."""

    def __init__(self, topic: str, monotonic: Callable[[], float]) -> None:
        self._topic = topic
        self._monotonic = monotonic
        self._began_s = 0.0
        self._loaded: list[tuple[int, int]] = []  # partitions and the number of their entries
        self._unloaded: list[int] = []

    def began(self, *, is_first: bool) -> None:
        """A shard starts to load; `is_first` if no other one is loading."""
        if is_first:
            self._began_s = self._monotonic()

    def loaded(self, index: int, entries: Sized) -> None:
        """The shard is loaded: it has this many groups, transactional ids or share partitions."""
        self._loaded.append((index, len(entries)))

    def ended(self) -> None:
        """No shard is loading any more."""
        loaded, self._loaded = self._loaded, []
        if not loaded:
            return
        log.info(
            "loaded coordinator shards",
            extra={
                "topic": self._topic,
                "partitions": len(loaded),
                "entries": sum(entries for _, entries in loaded),
                "ms": round((self._monotonic() - self._began_s) * 1000),
                "examples": self._names([index for index, _ in loaded]),
            },
        )

    def unloaded(self, index: int) -> bool:
        """Notes that the shard is unloaded; returns whether `report_unloaded` must follow."""
        self._unloaded.append(index)
        return len(self._unloaded) == 1

    def report_unloaded(self) -> None:
        """Logs the shards that were unloaded since the last call."""
        unloaded, self._unloaded = self._unloaded, []
        fields = {
            "topic": self._topic,
            "partitions": len(unloaded),
            "examples": self._names(unloaded),
        }
        log.info("unloaded coordinator shards", extra=fields)

    def _names(self, indexes: list[int]) -> str:
        return examples([f"{self._topic}-{index}" for index in sorted(indexes)])
