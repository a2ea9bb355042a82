"""Clients of the simulated cluster: idempotent producers and readers that use `headrace.client`.

A producer sends one batch after the other and repeats it, with its sequence number, until it is
acknowledged. If that is impossible, the producer starts again with another producer id. The result
of a batch without a response is unknown, and the checker treats it as unknown.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from headrace.client.client import ClusterClient, ToLeader
from headrace.client.errors import ClientError, code_of_number
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.protocol.types import Buffer
from headrace.records.batch_header import headers
from headrace.records.record import Record, build_batch, iter_records
from headrace.testing.simulation.checks.history import NO_OFFSET, History, Place, Violation
from headrace.testing.simulation.process import Incarnation

BY_NAME_PRODUCE = 12
BY_NAME_FETCH = 12
"""The newest versions that have topic names instead of ids."""

ALL_IN_SYNC = -1
REQUEST_TIMEOUT_S = 4.0
CONNECT_TIMEOUT_S = 2.0
API_TIMEOUT_S = 25.0
LARGEST_BATCH = 3  # records
MAX_VALUE_BYTES = 1 << 20
FETCH_BYTES = 1 << 20
FETCH_WAIT_MS = 400
RETRY_S = 0.2
PRODUCER_PAUSE_SHARE = 0.03  # share of the batches after which a producer pauses
LONGEST_REST_S = 8.0
METADATA_REFRESH_SHARE = 0.1  # share of the fetches before which a reader refreshes its metadata
UNKNOWN_EPOCH = -1
NEVER_SENT_BACK = "a consumer that sends its epoch is not reset"

_OTHER_EPOCH = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)

Acknowledged = Callable[[Place, Sequence[bytes], int], None]
"""Called for an acknowledged batch: partition, values, and first offset."""


def client_of(incarnation: Incarnation, bootstrap: str, name: str) -> ClusterClient:
    """Creates a client in this process."""
    return ClusterClient(
        bootstrap,
        client_id=name,
        clock=incarnation.world.clock,
        random=incarnation.random,
        request_timeout_s=REQUEST_TIMEOUT_S,
        connect_timeout_s=CONNECT_TIMEOUT_S,
    )


class Producer:
    """Writes to one partition with acks=all until it is stopped."""

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        place: Place,
        name: str,
        *,
        mean_pause_s: float,
        chance: Random,
        acknowledged: Acknowledged = lambda _place, _values, _offset: None,
    ) -> None:
        self._client = client
        self._history = history
        self._place = place
        self._name = name
        self._mean_pause_s = mean_pause_s
        self._random = chance
        self._acknowledged = acknowledged
        self._sent = 0
        self.stopping = False

    async def run(self) -> None:
        """Writes until `stopping` is set."""
        while not self.stopping:
            try:
                answer = await self._client.send(
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
                    InitProducerIdResponse,
                    timeout_s=API_TIMEOUT_S,
                )
                if not answer.error_code:
                    await self._produce(answer.producer_id, answer.producer_epoch)
            except ClientError:
                pass
            await asyncio.sleep(RETRY_S)

    async def _produce(self, producer_id: int, producer_epoch: int) -> None:
        """Produces until a batch cannot be repeated any more."""
        sequence = 0
        while not self.stopping:
            values = self._values()
            self._history.sent(self._place, f"{self._name}/{producer_id}", values)
            batch = build_batch(
                self._records(values),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=sequence,
            )
            answer = await self._send(batch)
            code = code_of_number(answer.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                return
            offset = answer.base_offset if code is ErrorCode.NONE else NO_OFFSET
            self._history.acked(self._place, values, offset)
            self._acknowledged(self._place, values, offset)
            sequence += len(values)
            await asyncio.sleep(self._pause_s())

    def _records(self, values: Sequence[bytes]) -> list[Record]:
        return [Record(n, 1, None, value, ()) for n, value in enumerate(values)]

    def _pause_s(self) -> float:
        """The next pause. It is sometimes long, because some faults show only in idle
        partitions."""
        if self._random.random() < PRODUCER_PAUSE_SHARE and not self.stopping:
            return self._random.random() * LONGEST_REST_S
        return self._random.expovariate(1 / self._mean_pause_s)

    def _values(self) -> list[bytes]:
        first = self._sent
        self._sent += self._random.randint(1, LARGEST_BATCH)
        return [f"{self._name}:{number}".encode() for number in range(first, self._sent)]

    async def _send(self, batch: bytes) -> PartitionProduceResponse:
        place = self._place
        request = ProduceRequest(
            acks=ALL_IN_SYNC,
            timeout_ms=int(REQUEST_TIMEOUT_S * 1000) // 2,
            topic_data=[
                TopicProduceData(
                    name=place.topic,
                    partition_data=[PartitionProduceData(index=place.partition, records=batch)],
                )
            ],
        )
        answer = await self._client.send(
            request,
            ProduceResponse,
            to=ToLeader(*place),
            timeout_s=API_TIMEOUT_S,
            at_most=BY_NAME_PRODUCE,
            code_of=lambda got: got.responses[0].partition_responses[0].error_code,
        )
        return answer.responses[0].partition_responses[0]


class Reader:
    """Reads one partition from its beginning, up to the last committed record.

    It sends the latest leader epoch that any broker has reported, and the epoch of the last record
    that it read (KIP-320). So only a leader that has all of these records answers it: no response
    may say that the position is after the end of the log, or that the logs diverge.
    """

    isolation_level = 0

    def __init__(
        self, client: ClusterClient, history: History | None, place: Place, chance: Random
    ) -> None:
        self._client = client
        self._history = history
        self._place = place
        self._random = chance
        self._leader_epoch = UNKNOWN_EPOCH
        self._read_epoch = UNKNOWN_EPOCH
        self.position = 0
        self.found: dict[int, bytes] = {}
        self.stopping = False

    async def run(self) -> None:
        """Reads until it is stopped."""
        while not self.stopping:
            try:
                await self.step()
            except ClientError:
                await asyncio.sleep(RETRY_S)

    async def read_all(self) -> dict[int, bytes]:
        """All committed records, by offset."""
        while True:
            before = self.position
            answer = await self.step(max_wait_ms=0)
            if answer.high_watermark <= self.position and not answer.error_code:
                return self.found
            if self.position == before:
                await asyncio.sleep(RETRY_S)  # waits for an open transaction

    async def step(self, *, max_wait_ms: int = FETCH_WAIT_MS) -> FetchPartitionData:
        """One fetch."""
        await self._learn_epoch()
        answer = await self._fetch(max_wait_ms)
        code = code_of_number(answer.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE or answer.diverging_epoch.end_offset >= 0:
            said = f"{code.name} {answer.diverging_epoch}"
            named = f"{self.position} in epoch {self._leader_epoch} after {self._read_epoch}"
            raise Violation(NEVER_SENT_BACK, f"{self._place}: {named}, answered {said}")
        if code is not ErrorCode.NONE:
            self._client.metadata.forget(self._place.topic)
            await asyncio.sleep(RETRY_S)
            return answer
        self._take_batches(answer)
        return answer

    async def _learn_epoch(self) -> None:
        topic, index = self._place
        metadata = self._client.metadata
        if self._random.random() < METADATA_REFRESH_SHARE:
            metadata.forget(topic)
        known = metadata.topic(topic)
        if known is None:
            known = (await self._client.refresh([topic], timeout_s=API_TIMEOUT_S)).topic(topic)
        if known is not None and index in known.partitions:
            self._leader_epoch = max(self._leader_epoch, known.partitions[index].leader_epoch)

    def _take_batches(self, answer: FetchPartitionData) -> None:
        data = bytes(answer.records or b"")
        records = [(offset, value) for offset, value in records_in(data) if offset >= self.position]
        for _, header in headers(data, partial_tail=True):
            self._passed(header.next_offset, header.partition_leader_epoch)
        if records:
            self.found.update(records)
            if self._history is not None:
                self._history.consumed(self._place, records)

    def _passed(self, next_offset: int, leader_epoch: int) -> None:
        """The next offset, and the epoch of the batch before it."""
        if next_offset > self.position:
            self.position, self._read_epoch = next_offset, leader_epoch

    async def _fetch(self, max_wait_ms: int) -> FetchPartitionData:
        place = self._place
        wanted = FetchPartition(
            partition=place.partition,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=self.position,
            last_fetched_epoch=self._read_epoch,
            partition_max_bytes=FETCH_BYTES,
        )
        answer = await self._client.send(
            FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                isolation_level=self.isolation_level,
                topics=[FetchTopic(topic=place.topic, partitions=[wanted])],
            ),
            FetchResponse,
            to=ToLeader(*place),
            timeout_s=API_TIMEOUT_S,
            at_most=BY_NAME_FETCH,
            code_of=_code_of_fetch,
        )
        return answer.responses[0].partitions[0]


def _code_of_fetch(answer: FetchResponse) -> int:
    """The error code, without errors about the epoch: the caller retries with another epoch."""
    code = answer.error_code or answer.responses[0].partitions[0].error_code
    return 0 if code in _OTHER_EPOCH else code


def records_in(data: Buffer) -> list[tuple[int, bytes]]:
    """(offset, value) of the whole batches in `data`."""
    raw = bytes(data)
    found: list[tuple[int, bytes]] = []
    for position, header in headers(raw, partial_tail=True):
        batch = raw[position : position + header.size]
        records = iter_records(batch, max_bytes=MAX_VALUE_BYTES)
        found.extend((record.offset, record.value or b"") for record in records)
    return found
