"""The stored state of share partitions, on this broker or another.

Every call runs once in the shard of the partition's key, either on this broker or through a request
to the leader of the shard's partition. Errors are `CoordinatorError`s in both cases. An unreachable
broker counts as an unavailable coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.client.errors import ClientError, code_of_number
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.share_state.share_state_shard import (
    NO_EPOCH,
    ReadState,
    ShareStateShard,
    StateChange,
    StateSummary,
)
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages import delete_share_group_state as deleting
from headrace.protocol.messages import initialize_share_group_state as initializing
from headrace.protocol.messages import read_share_group_state as reading
from headrace.protocol.messages import read_share_group_state_summary as summarizing
from headrace.protocol.messages import write_share_group_state as writing
from headrace.protocol.struct import Struct
from headrace.share.record_state import RecordState, StateBatch

if TYPE_CHECKING:
    from headrace.broker.membership.peers import Peers

A = TypeVar("A", bound=Struct)
R = TypeVar("R")
P_co = TypeVar("P_co", covariant=True)

REQUEST_TIMEOUT_S: Final = 10.0


class _PartitionResult(Protocol):
    """The fields that every partition result has."""

    @property
    def error_code(self) -> int: ...

    @property
    def error_message(self) -> str | None: ...


P = TypeVar("P", bound=_PartitionResult)


class _TopicResult(Protocol[P_co]):
    @property
    def partitions(self) -> Sequence[P_co]: ...


class ShareStateCoordinator(Protocol):
    """Stores the state of share partitions by key."""

    def remote_leader_of(self, key: str) -> int | None: ...

    def run(
        self, key: str, decide: Callable[[ShareStateShard, int], CoordinatorResult[R]]
    ) -> asyncio.Future[R]: ...

    def answer(
        self,
        key: str,
        decide: Callable[[ShareStateShard, int], CoordinatorResult[R]],
        refuse: Callable[[CoordinatorError], R],
    ) -> R | asyncio.Future[R]: ...


class ShareStateHost(Protocol):
    """The part of the broker that the persister uses."""

    loop: asyncio.AbstractEventLoop

    @property
    def share_state(self) -> ShareStateCoordinator: ...

    @property
    def peers(self) -> Peers | None: ...


class ShareStatePersister:
    """Initializes, reads, writes and deletes stored state."""

    def __init__(self, host: ShareStateHost) -> None:
        self._host = host

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int
    ) -> asyncio.Future[bool]:
        async def remotely(host: int) -> bool:
            data = initializing.InitializeShareGroupStatePartitionData(
                partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
            )
            topic = initializing.InitializeStateData(topic_id=key.topic_id, partitions=[data])
            request = initializing.InitializeShareGroupStateRequest(
                group_id=key.group_id, topics=[topic]
            )
            answer = await self._send_request(
                host, request, initializing.InitializeShareGroupStateResponse
            )
            _only_partition(answer.results)
            return True

        return self._run(
            key,
            lambda shard, now_ms: shard.initialize(key, state_epoch, start_offset, now_ms),
            remotely,
        )

    def read(self, key: SharePartitionKey, leader_epoch: int) -> asyncio.Future[ReadState]:
        async def remotely(host: int) -> ReadState:
            data = reading.ReadShareGroupStatePartitionData(
                partition=key.partition, leader_epoch=leader_epoch
            )
            topic = reading.ReadStateData(topic_id=key.topic_id, partitions=[data])
            request = reading.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic])
            answer = await self._send_request(host, request, reading.ReadShareGroupStateResponse)
            state = _only_partition(answer.results)
            batches = tuple(
                StateBatch(
                    batch.first_offset,
                    batch.last_offset,
                    RecordState(batch.delivery_state),
                    batch.delivery_count,
                )
                for batch in state.state_batches
            )
            return ReadState(state.state_epoch, state.start_offset, batches)

        return self._run(key, lambda shard, now_ms: shard.read(key, leader_epoch, now_ms), remotely)

    def write(
        self,
        key: SharePartitionKey,
        change: StateChange,
        refuse: Callable[[CoordinatorError], bool],
    ) -> bool | asyncio.Future[bool]:
        """The result immediately if it is available; `refuse` converts errors to results."""
        coordinator = self._host.share_state
        host = coordinator.remote_leader_of(key.coordinator_key)
        if host is None:
            return coordinator.answer(
                key.coordinator_key, lambda shard, now_ms: shard.write(key, change, now_ms), refuse
            )
        return self._host.loop.create_task(self._write_remotely(host, key, change, refuse))

    async def _write_remotely(
        self,
        host: int,
        key: SharePartitionKey,
        change: StateChange,
        refuse: Callable[[CoordinatorError], bool],
    ) -> bool:
        data = writing.WriteShareGroupStatePartitionData(
            partition=key.partition,
            state_epoch=change.state_epoch,
            leader_epoch=change.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.complete_count,
            state_batches=[
                writing.WriteShareGroupStateStateBatch(
                    first_offset=batch.first,
                    last_offset=batch.last,
                    delivery_state=batch.state,
                    delivery_count=batch.deliveries,
                )
                for batch in change.batches
            ],
        )
        topic = writing.WriteStateData(topic_id=key.topic_id, partitions=[data])
        request = writing.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        try:
            answer = await self._send_request(host, request, writing.WriteShareGroupStateResponse)
            _only_partition(answer.results)
        except CoordinatorError as error:
            return refuse(error)
        return True

    def delete(self, key: SharePartitionKey) -> asyncio.Future[bool]:
        async def remotely(host: int) -> bool:
            data = deleting.DeleteShareGroupStatePartitionData(partition=key.partition)
            topic = deleting.DeleteStateData(topic_id=key.topic_id, partitions=[data])
            request = deleting.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic])
            answer = await self._send_request(host, request, deleting.DeleteShareGroupStateResponse)
            _only_partition(answer.results)
            return True

        return self._run(key, lambda shard, _: shard.delete(key), remotely)

    def summary(self, key: SharePartitionKey) -> asyncio.Future[StateSummary]:
        async def remotely(host: int) -> StateSummary:
            data = summarizing.ReadShareGroupStateSummaryPartitionData(
                partition=key.partition, leader_epoch=NO_EPOCH
            )
            topic = summarizing.ReadStateSummaryData(topic_id=key.topic_id, partitions=[data])
            request = summarizing.ReadShareGroupStateSummaryRequest(
                group_id=key.group_id, topics=[topic]
            )
            answer = await self._send_request(
                host, request, summarizing.ReadShareGroupStateSummaryResponse
            )
            state = _only_partition(answer.results)
            return StateSummary(
                state.state_epoch,
                state.leader_epoch,
                state.start_offset,
                state.delivery_complete_count,
                state.first_unfinished,
            )

        return self._run(key, lambda shard, _: shard.summary(key), remotely)

    # --- inside ---------------------------------------------------------------------------------

    def _run(
        self,
        key: SharePartitionKey,
        here: Callable[[ShareStateShard, int], CoordinatorResult[R]],
        remotely: Callable[[int], Coroutine[object, object, R]],
    ) -> asyncio.Future[R]:
        coordinator = self._host.share_state
        host = coordinator.remote_leader_of(key.coordinator_key)
        if host is None:
            return coordinator.run(key.coordinator_key, here)
        return self._host.loop.create_task(remotely(host))

    async def _send_request(self, host: int, request: Struct, answer: type[A]) -> A:
        peers = self._host.peers
        assert peers is not None  # another broker leads the shard's partition
        try:
            return await peers.request(host, request, answer, timeout_s=REQUEST_TIMEOUT_S)
        except ClientError as error:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error


def _only_partition(results: Sequence[_TopicResult[P]]) -> P:
    """The result of the only partition in the response; raises its error."""
    partitions = [one for topic in results for one in topic.partitions]
    if not partitions:
        raise CoordinatorError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "the response does not contain the partition"
        )
    if partitions[0].error_code:
        raise CoordinatorError(
            code_of_number(partitions[0].error_code), partitions[0].error_message or ""
        )
    return partitions[0]
