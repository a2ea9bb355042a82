"""What the first consumer needs, imported while nobody waits for it.

A broker starts without its coordinators, because most of a start is imports. But an import holds
the loop, and with it every client: so what is left is imported some time after the start, a module
a turn.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

START_AFTER_S: Final = 1.0  # the first answers of a started broker come before
PAUSE_S: Final = 0.02  # between two modules, for clients

# In an order in which each brings little with it.
MODULES: Final = (
    "headrace.coordinator.common.result",
    "headrace.coordinator.common.record_format",
    "headrace.broker.coordinators.shard_runner",
    "headrace.broker.coordinators.shard_loader",
    "headrace.broker.coordinators.coordinator",
    "headrace.broker.coordinators.coordinators",
    "headrace.coordinator.group.group_config",
    "headrace.coordinator.group.records.offsets",
    "headrace.coordinator.group.records.format",
    "headrace.coordinator.group.classic.member",
    "headrace.coordinator.group.classic.classic_state",
    "headrace.coordinator.group.classic.subscription",
    "headrace.coordinator.group.classic.classic_group",
    "headrace.coordinator.group.consumer.member",
    "headrace.coordinator.group.consumer.record_replay",
    "headrace.coordinator.group.consumer.regex_subscriptions",
    "headrace.coordinator.group.classic.classic_groups",
    "headrace.coordinator.group.share.group_records",
    "headrace.coordinator.group.offsets.offset_manager",
    "headrace.coordinator.group.group_shard",
    "headrace.broker.handlers.find_coordinator",
    "headrace.broker.handlers.join_group",
    "headrace.broker.handlers.sync_group",
    "headrace.broker.handlers.heartbeat",
    "headrace.broker.handlers.leave_group",
    "headrace.broker.coordinators.commit_batcher",
    "headrace.broker.coordinators.commit_fast_path",
    "headrace.broker.handlers.offset_commit",
    "headrace.broker.handlers.offset_fetch",
    "headrace.broker.handlers.consumer_group_heartbeat",
)


def warm_up(
    loop: asyncio.AbstractEventLoop,
    is_over: Callable[[], bool],
    modules: Sequence[str] = MODULES,
    start_after_s: float = START_AFTER_S,
) -> None:
    """Imports the modules that are missing, until `is_over`."""
    missing = [name for name in reversed(modules) if name not in sys.modules]

    def one() -> None:
        if is_over():
            return
        import_module(missing.pop())
        if missing:
            loop.call_later(PAUSE_S, one)

    if missing:
        loop.call_later(start_after_s, one)
