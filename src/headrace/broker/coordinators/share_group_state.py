"""Connects the coordinator of a share group to the coordinators of its state.

A group coordinator decides when the state of a share partition starts and ends; another coordinator
stores it. The group's log records the operations in progress. After a crash, the next heartbeat or
the next deletion completes them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.broker.share.share_partition_runner import (
    COORDINATOR_UNAVAILABLE,
    FIRST_RETRY_S,
    RETRIES,
)
from headrace.broker.share.share_state_persister import ShareStateHost, ShareStatePersister
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.share.start_offsets import (
    StartOffset,
    StartOffsetAlteration,
    StateDeletion,
)
from headrace.coordinator.group.share.state_initialization import CHOSEN_BY_LEADER, InitializeState
from headrace.coordinator.group.share.state_topics import Partitions
from headrace.coordinator.share_state.stored_state import SharePartitionKey

if TYPE_CHECKING:
    from headrace.broker.coordinators.coordinator_runtime import CoordinatorRuntime
    from headrace.broker.metadata.standalone_metadata import Metadata
    from headrace.coordinator.group.group_shard import GroupShard
    from headrace.coordinator.share_state.share_state_shard import ShareStateShard, StateSummary

log = logging.getLogger(__package__)

R = TypeVar("R")
Ask = Callable[[SharePartitionKey], "asyncio.Future[R]"]


class LoadedSharePartitions(Protocol):
    """The share partitions whose state this broker has loaded."""

    def unload_group(self, group_id: str) -> None: ...


class ShareGroupStatesHost(ShareStateHost, Protocol):
    """The part of the broker that the state of share groups uses."""

    metadata: Metadata

    @property
    def groups(self) -> CoordinatorRuntime[GroupShard]: ...

    @property
    def share_state(self) -> CoordinatorRuntime[ShareStateShard]: ...

    @property
    def shares(self) -> LoadedSharePartitions: ...


class ShareGroupStates:
    """Starts, reads and ends the stored state of share groups."""

    def __init__(self, host: ShareGroupStatesHost) -> None:
        self._host = host
        self._states = ShareStatePersister(host)
        self._starting: dict[str, asyncio.Task[None]] = {}

    def stop(self) -> None:
        for task in tuple(self._starting.values()):
            task.cancel()

    # --- first use ------------------------------------------------------------------------------

    def initialize(self, index: int, wanted: InitializeState) -> None:
        """Performs the effect of a heartbeat."""
        group_id = wanted.group_id
        before = self._starting.get(group_id)
        task = self._host.loop.create_task(self._initialize(wanted, before))
        self._starting[group_id] = task

        def done(_: asyncio.Task[None]) -> None:
            if self._starting.get(group_id) is task:
                del self._starting[group_id]

        task.add_done_callback(done)

    def starting(self, group_id: str) -> asyncio.Task[None] | None:
        """The task that starts state of the group now, if there is one."""
        return self._starting.get(group_id)

    async def _initialize(self, wanted: InitializeState, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        partitions = {id_: topic.partitions for id_, topic in wanted.topics.items()}
        group_id = wanted.group_id
        try:
            outcomes = await self._run_in_each_shard(
                group_id,
                partitions,
                lambda key: self._states.initialize(key, wanted.state_epoch, CHOSEN_BY_LEADER),
            )
            errors = [error for error in outcomes.values() if isinstance(error, CoordinatorError)]
            if errors:
                log.warning(
                    "cannot initialize share group state; a later heartbeat retries",
                    extra={"group": group_id, "error": str(errors[0])},
                )
                await self._host.groups.run(
                    group_id, lambda shard, _: shard.share.not_started(group_id, wanted.topics)
                )
            else:
                await self._host.groups.run(
                    group_id, lambda shard, _: shard.share.started(group_id, wanted.topics)
                )
        except CoordinatorError as error:
            # The group's log has the operation: a later heartbeat starts it again.
            log.warning(
                "cannot record initialized share group state; a later heartbeat retries",
                extra={"group": group_id, "error": str(error)},
            )

    # --- administration -------------------------------------------------------------------------

    async def alter(
        self, group_id: str, offsets: list[StartOffset]
    ) -> tuple[StartOffsetAlteration, Mapping[SharePartitionKey, CoordinatorError]]:
        """Stores new start offsets; returns the accepted ones and the first errors."""
        accepted = await self._host.groups.run(
            group_id, lambda shard, _: shard.share.alter_offsets(group_id, offsets)
        )
        topics = self._host.metadata.image.topics
        starts = {
            (topics[start.topic].topic_id, start.partition): start.offset
            for start in accepted.accepted
            if start.topic in topics
        }
        self._host.shares.unload_group(group_id)
        outcomes = await self._run_in_each_shard(
            group_id,
            {id_: topic.partitions for id_, topic in accepted.topics.items()},
            lambda key: self._states.initialize(
                key, accepted.state_epoch, starts[key.topic_id, key.partition]
            ),
        )
        errors = {
            key: outcome
            for key, outcome in outcomes.items()
            if isinstance(outcome, CoordinatorError)
        }
        if accepted.topics and not errors:
            await self._host.groups.run(
                group_id, lambda shard, _: shard.share.started(group_id, accepted.topics)
            )
        return accepted, errors

    async def delete_topics(
        self, group_id: str, topics: list[str]
    ) -> tuple[StateDeletion, Mapping[bytes, CoordinatorError]]:
        """Deletes the state of whole topics; returns the state that existed, and the errors."""
        begun = await self._host.groups.run(
            group_id, lambda shard, _: shard.share.begin_offset_deletion(group_id, topics)
        )
        self._host.shares.unload_group(group_id)
        errors = await self._delete(group_id, begun.partitions)
        done = [topic_id for topic_id in begun.partitions if topic_id not in errors]
        if done:
            await self._host.groups.run(
                group_id, lambda shard, _: shard.share.end_offset_deletion(group_id, done)
            )
        return begun, errors

    async def delete_group(self, group_id: str) -> None:
        """Deletes all state of a group before the group is deleted. Raises the first error."""
        partitions = await self._host.groups.run(
            group_id, lambda shard, _: shard.share.begin_group_deletion(group_id)
        )
        if not partitions:
            return
        self._host.shares.unload_group(group_id)
        errors = await self._delete(group_id, partitions)
        for error in errors.values():
            raise error

    async def _delete(
        self, group_id: str, partitions: Partitions
    ) -> Mapping[bytes, CoordinatorError]:
        """The first error of each topic id."""
        outcomes = await self._run_in_each_shard(group_id, partitions, self._states.delete)
        errors: dict[bytes, CoordinatorError] = {}
        for key, outcome in outcomes.items():
            if isinstance(outcome, CoordinatorError):
                errors.setdefault(key.topic_id, outcome)
        return errors

    async def summaries(
        self, group_id: str, partitions: Partitions
    ) -> Mapping[SharePartitionKey, StateSummary | CoordinatorError]:
        """The start offsets of the group in these partitions."""
        return await self._run_in_each_shard(group_id, partitions, self._states.summary)

    async def _run_in_each_shard(
        self, group_id: str, partitions: Partitions, ask: Ask[R]
    ) -> dict[SharePartitionKey, R | CoordinatorError]:
        """Runs one operation for each partition, in its own shard; creates the topic if
        necessary."""
        keys = [
            SharePartitionKey(group_id, topic_id, number)
            for topic_id, numbers in partitions.items()
            for number in sorted(numbers)
        ]
        try:
            if keys:
                await self._host.share_state.ensure_topic()
        except CoordinatorError as error:
            return dict.fromkeys(keys, error)
        running = []
        for key in keys:
            running_call = self._run_with_retries(key, ask)
            running.append((key, self._host.loop.create_task(running_call)))
        return {key: await task for key, task in running}

    async def _run_with_retries(self, key: SharePartitionKey, ask: Ask[R]) -> R | CoordinatorError:
        """Retries while the coordinator is loading or moving to another broker."""
        attempt = 0
        while True:
            try:
                return await ask(key)
            except CoordinatorError as error:
                if error.code not in COORDINATOR_UNAVAILABLE or attempt == RETRIES:
                    return error
                await asyncio.sleep(FIRST_RETRY_S * 2**attempt)
                attempt += 1
