"""Matches the patterns of consumer groups against the topics, without blocking the event loop."""

import asyncio
from collections.abc import Callable
from typing import Final

from headrace.broker.access.access_control import AccessControl
from headrace.broker.coordinators.coordinator_runtime import CoordinatorRuntime
from headrace.coordinator.group.consumer.regex_subscriptions import PatternMatching, ResolvePatterns
from headrace.coordinator.group.group_shard import GroupShard
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.security.session import Session

MATCHES_PER_SLICE: Final = 500
"""About two milliseconds of work; then other requests are served."""


class PatternMatcher:
    """Performs the effect `ResolvePatterns`."""

    def __init__(
        self,
        groups: CoordinatorRuntime[GroupShard],
        loop: asyncio.AbstractEventLoop,
        access: AccessControl,
    ) -> None:
        self._groups = groups
        self._access = access
        self._loop = loop

    def start(self, index: int, work: ResolvePatterns) -> None:
        """Notifies the shard of that partition after all topics have been matched."""
        topics_per_slice = max(MATCHES_PER_SLICE // len(work.patterns), 1)
        matching = PatternMatching(work, self._visibility(work.session))
        self._loop.call_soon(self._step, index, work, matching, topics_per_slice)

    def _visibility(self, session: Session) -> Callable[[str], bool] | None:
        """Whether the member may describe a topic; None without an authorizer."""
        access, describe = self._access, AclOperation.DESCRIBE
        if not access.is_enforced:
            return None
        return lambda name: access.shows(session, describe, AclResourceType.TOPIC, name)

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
