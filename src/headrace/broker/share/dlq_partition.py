"""A partition of a dead-letter topic, led by this broker or by another.

Guarantees: when `append` returns, the batch is committed on all in-sync replicas. `NotWritten`
means that the batch is not committed, or that its outcome is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.broker.partitions.commit_wait import when_committed
from headrace.client.errors import ClientError, code_of_number
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.protocol.struct import Struct
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    import asyncio

    from headrace.broker.membership.peers import Peers
    from headrace.broker.metadata.standalone_metadata import MetadataView
    from headrace.broker.partitions.flusher import Flusher
    from headrace.broker.partitions.partition_table import PartitionTable
    from headrace.clock import Clock

R = TypeVar("R", bound=Struct)

CHANNEL: Final = "dead letters"  # separate connections: a produce may wait for replicas
READ_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 30.0
ALL: Final = -1
EARLIEST, LATEST = -2, -1
# Uses the topic's name, not its id.
PRODUCE_VERSION: Final = 12
FETCH_VERSION: Final = 12


class LocalDlqHost(Protocol):
    """The part of the broker that a local dead-letter partition uses."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    flusher: Flusher


class DlqHost(LocalDlqHost, Protocol):
    """The part of the broker that the search for the leader of a dead-letter partition uses."""

    node_id: int
    partitions: PartitionTable

    @property
    def metadata(self) -> MetadataView: ...

    @property
    def peers(self) -> Peers | None: ...


class NotWritten(Exception):
    """The dead letter could not be written this time; the message gives the reason."""


class DlqPartition(Protocol):
    """One partition of a dead-letter topic."""

    async def append(self, batch: bytes) -> None:
        """Returns when the batch is committed; raises `NotWritten`."""
        ...

    async def bounds(self) -> tuple[int, int]:
        """The log start offset and the end offset; raises `NotWritten`."""
        ...

    async def read(self, offset: int) -> bytes:
        """Some whole batches from that offset on; raises `NotWritten`."""
        ...


def find_dlq_partition(host: DlqHost, topic: str, index: int) -> DlqPartition:
    """The partition at its current leader; raises `NotWritten`."""
    known = host.metadata.image.topics.get(topic)
    partition = known.partition(index) if known is not None else None
    if partition is not None and partition.leader == host.node_id:
        hosted = host.partitions.by_name.get(topic)
        leader = hosted.leader(index) if hosted is not None else None
        if leader is not None:
            return LocalDlqPartition(host, leader)
    elif partition is not None and partition.leader >= 0 and host.peers is not None:
        return RemoteDlqPartition(host.peers, topic, index, partition.leader)
    raise NotWritten(f"dead-letter topic {topic} has no leader")


class LocalDlqPartition:
    """A partition that this broker leads."""

    def __init__(self, host: LocalDlqHost, leader: SoleLeader) -> None:
        self._host = host
        self._leader = leader

    async def append(self, batch: bytes) -> None:
        host, leader = self._host, self._leader
        try:
            leader.append(memoryview(bytearray(batch)), host.clock.wall_ms())
            end = leader.log.log_end_offset
        except StorageError as error:
            raise self._failed(error) from error
        code = await when_committed(host.loop, host.flusher, leader, end)
        if code is not ErrorCode.NONE:
            raise self._failed(code.name)

    async def bounds(self) -> tuple[int, int]:
        try:
            return self._leader.log.log_start_offset, self._leader.log.log_end_offset
        except StorageError as error:
            raise self._failed(error) from error

    async def read(self, offset: int) -> bytes:
        try:
            return bytes(self._leader.log.read(offset, max_bytes=READ_BYTES).data)
        except StorageError as error:
            raise self._failed(error) from error

    def _failed(self, reason: object) -> NotWritten:
        return NotWritten(f"dead-letter topic {self._leader.topic}: {reason}")


class RemoteDlqPartition:
    """A partition that another broker leads."""

    def __init__(self, peers: Peers, topic: str, index: int, leader_id: int) -> None:
        self._peers = peers
        self._topic = topic
        self._index = index
        self._leader_id = leader_id

    async def append(self, batch: bytes) -> None:
        data = PartitionProduceData(index=self._index, records=batch)
        topic = TopicProduceData(name=self._topic, partition_data=[data])
        request = ProduceRequest(acks=ALL, timeout_ms=int(TIMEOUT_S * 1000), topic_data=[topic])
        answer = await self._request(request, ProduceResponse, version=PRODUCE_VERSION)
        self._check(answer.responses[0].partition_responses[0].error_code)

    async def bounds(self) -> tuple[int, int]:
        first, last = [await self._offset(at) for at in (EARLIEST, LATEST)]
        return first, last

    async def _offset(self, timestamp: int) -> int:
        wanted = ListOffsetsPartition(partition_index=self._index, timestamp=timestamp)
        topic = ListOffsetsTopic(name=self._topic, partitions=[wanted])
        answer = await self._request(ListOffsetsRequest(topics=[topic]), ListOffsetsResponse)
        found = answer.topics[0].partitions[0]
        self._check(found.error_code)
        return found.offset

    async def read(self, offset: int) -> bytes:
        wanted = FetchPartition(
            partition=self._index, fetch_offset=offset, partition_max_bytes=READ_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=READ_BYTES,
            session_epoch=-1,
            topics=[FetchTopic(topic=self._topic, partitions=[wanted])],
        )
        answer = await self._request(request, FetchResponse, version=FETCH_VERSION)
        self._check(answer.error_code)
        found = answer.responses[0].partitions[0]
        self._check(found.error_code)
        return bytes(found.records or b"")

    async def _request(self, request: Struct, answer: type[R], *, version: int | None = None) -> R:
        try:
            return await self._peers.request(
                self._leader_id,
                request,
                answer,
                timeout_s=TIMEOUT_S,
                channel=CHANNEL,
                version=version,
            )
        except ClientError as error:
            raise self._failed(str(error)) from error

    def _check(self, code: int) -> None:
        if code:
            raise self._failed(code_of_number(code).name)

    def _failed(self, reason: str) -> NotWritten:
        return NotWritten(f"dead-letter topic {self._topic} on broker {self._leader_id}: {reason}")
