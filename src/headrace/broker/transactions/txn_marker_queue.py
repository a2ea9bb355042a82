"""Sends markers to another broker: one request at a time, with all waiting markers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from headrace.client.errors import ClientError, code_of_number
from headrace.coordinator.transaction.marker_request import WriteMarkers
from headrace.coordinator.transaction.transaction import Partition
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from headrace.broker.membership.peers import Peers
    from headrace.broker.transactions.txn_marker_sender import MarkerJob

REQUEST_TIMEOUT_S: Final = 30.0  # the response comes after the markers are committed
MAX_MARKERS: Final = 1_000  # limit for one request


class _Entry(NamedTuple):
    job: MarkerJob
    partitions: list[Partition]
    coordinator_epoch: int

    @property
    def wanted(self) -> WriteMarkers:
        return self.job.wanted


class TxnMarkerQueueHost(Protocol):
    """The part of the broker that a queue uses."""

    loop: asyncio.AbstractEventLoop
    stopping: bool

    @property
    def peers(self) -> Peers | None: ...


class MarkerOutcomes(Protocol):
    """Gets the outcome of each marker."""

    def answered(self, job: MarkerJob, partition: Partition, code: ErrorCode) -> None: ...

    def superseded(self, job: MarkerJob) -> bool: ...


class TxnMarkerQueue:
    """The markers for one broker."""

    def __init__(self, host: TxnMarkerQueueHost, receiver: int, sender: MarkerOutcomes) -> None:
        self._host = host
        self._receiver = receiver
        self._sender = sender
        self._waiting: list[_Entry] = []
        self._sending: asyncio.Task[None] | None = None

    def put(self, job: MarkerJob, partitions: list[Partition], coordinator_epoch: int) -> None:
        self._waiting.append(_Entry(job, partitions, coordinator_epoch))
        if self._sending is None:
            self._sending = self._host.loop.create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._waiting and not self._host.stopping:
                entries = self._waiting[:MAX_MARKERS]
                self._waiting = self._waiting[MAX_MARKERS:]
                entries = [entry for entry in entries if not self._sender.superseded(entry.job)]
                if entries:
                    await self._exchange(entries)
        finally:
            self._sending = None

    async def _exchange(self, entries: list[_Entry]) -> None:
        request = WriteTxnMarkersRequest(markers=[_marker(entry) for entry in entries])
        peers = self._host.peers
        assert peers is not None  # another broker leads the partitions
        try:
            answer = await peers.request(
                self._receiver, request, WriteTxnMarkersResponse, timeout_s=REQUEST_TIMEOUT_S
            )
        except ClientError:
            codes: list[dict[Partition, ErrorCode]] = [{} for _ in entries]
        else:
            codes = [
                {
                    (topic.name, one.partition_index): code_of_number(one.error_code)
                    for topic in marker.topics
                    for one in topic.partitions
                }
                for marker in answer.markers
            ]
            codes += [{} for _ in entries[len(codes) :]]
        for entry, results in zip(entries, codes, strict=False):
            for partition in entry.partitions:
                # Without a response the marker may be missing: it is sent again, if necessary to a
                # new leader.
                code = results.get(partition, ErrorCode.NETWORK_EXCEPTION)
                self._sender.answered(entry.job, partition, code)


def _marker(entry: _Entry) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for name, index in entry.partitions:
        topics.setdefault(name, []).append(index)
    return WritableTxnMarker(
        producer_id=entry.wanted.producer_id,
        producer_epoch=entry.wanted.epoch,
        transaction_result=entry.wanted.commit,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
        coordinator_epoch=entry.coordinator_epoch,
        transaction_version=entry.wanted.version,
    )
