"""Matches the patterns of consumer groups against the topics, without blocking the event loop."""

import asyncio
from typing import Final

from headrace.broker.coordinators.coordinator_runtime import CoordinatorRuntime
from headrace.coordinator.group.consumer.regex_subscriptions import PatternMatching, ResolvePatterns
from headrace.coordinator.group.group_shard import GroupShard

MATCHES_PER_SLICE: Final = 500
"""About two milliseconds of work; then other requests are served."""


class PatternMatcher:
    """Performs the effect `ResolvePatterns`."""

    def __init__(
        self, groups: CoordinatorRuntime[GroupShard], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._groups = groups
        self._loop = loop

    def start(self, index: int, work: ResolvePatterns) -> None:
        """Notifies the shard of that partition after all topics have been matched."""
        topics_per_slice = max(MATCHES_PER_SLICE // len(work.patterns), 1)
        self._loop.call_soon(self._step, index, work, PatternMatching(work), topics_per_slice)

    def _step(
        self, index: int, work: ResolvePatterns, matching: PatternMatching, limit: int
    ) -> None:
        if matching.step(limit):
            self._loop.call_soon(self._step, index, work, matching, limit)
            return
        notified = self._groups.run_partition(
            index,
            lambda shard, now_ms: shard.consumer.patterns_resolved(work, matching.found, now_ms),
        )
        # If the shard has moved or cannot write, a heartbeat starts the matching again.
        notified.add_done_callback(lambda done: done.cancelled() or done.exception())
