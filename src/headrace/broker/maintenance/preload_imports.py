"""Imports the modules that the first consumer needs, shortly after the start of the broker.

A broker starts without its coordinators, because imports are most of the time of a start. But an
import blocks the event loop, and with it every client. So the broker imports the other modules some
time after its start, one per iteration of the loop.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

START_AFTER_S: Final = 1.0  # a new broker serves its first requests first
PAUSE_S: Final = 0.02  # between two modules, for clients

# Ordered so that each import loads few other modules.
MODULES: Final = (
    "headrace.coordinator.common.result",
    "headrace.coordinator.common.record_format",
    "headrace.broker.coordinators.shard_runner",
    "headrace.broker.coordinators.shard_loader",
    "headrace.broker.coordinators.coordinator_runtime",
    "headrace.broker.coordinators.coordinator_registry",
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
    "headrace.coordinator.group.classic.classic_group_manager",
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
    """Imports the missing modules one by one, until `is_over` returns true."""
    missing = [name for name in reversed(modules) if name not in sys.modules]

    def one() -> None:
        if is_over():
            return
        import_module(missing.pop())
        if missing:
            loop.call_later(PAUSE_S, one)

    if missing:
        loop.call_later(start_after_s, one)
