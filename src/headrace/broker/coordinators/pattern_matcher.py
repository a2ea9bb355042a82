"""Matches the patterns of consumer groups against the topics, without holding the loop."""

import asyncio
from typing import Final

from headrace.broker.coordinators.coordinator import Coordinator
from headrace.coordinator.group.consumer.regex_subscriptions import PatternMatching, ResolvePatterns
from headrace.coordinator.group.group_shard import GroupShard

MATCHES_PER_SLICE: Final = 500
"""About two milliseconds of work; then other requests have their turn."""


class PatternMatcher:
    """Performs the effect `ResolvePatterns`."""

    def __init__(self, groups: Coordinator[GroupShard], loop: asyncio.AbstractEventLoop) -> None:
        self._groups = groups
        self._loop = loop

    def start(self, index: int, work: ResolvePatterns) -> None:
        """The shard of that partition is told when all topics have been tried."""
        topics_per_slice = max(MATCHES_PER_SLICE // len(work.patterns), 1)
        self._loop.call_soon(self._step, index, work, PatternMatching(work), topics_per_slice)

    def _step(
        self, index: int, work: ResolvePatterns, matching: PatternMatching, limit: int
    ) -> None:
        if matching.step(limit):
            self._loop.call_soon(self._step, index, work, matching, limit)
            return
        told = self._groups.run_partition(
            index,
            lambda shard, now_ms: shard.consumer.patterns_resolved(work, matching.found, now_ms),
        )
        # A shard that has moved away, or could not write, has it matched again with a heartbeat.
        told.add_done_callback(lambda done: done.cancelled() or done.exception())
