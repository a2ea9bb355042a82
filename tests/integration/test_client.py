"""The cluster client against a real broker: find it, create a topic, write to it, read it back."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

import pytest

from headrace.client.client import ClusterClient, ToController, ToLeader
from headrace.client.errors import DeadlineExceeded, LeaderUnknown
from headrace.clock import SystemClock
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.batch_header import check_batch, headers
from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch, iter_records

T = TypeVar("T")
MAX_BYTES = 1_000_000


def _run(bootstrap: str, scenario: Callable[[ClusterClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with ClusterClient(
            bootstrap, client_id="test", clock=SystemClock(), random=Random(1)
        ) as client:
            return await scenario(client)

    return asyncio.run(run())


async def _create(client: ClusterClient, name: str) -> bytes:
    """A new topic of two partitions; its id."""
    request = CreateTopicsRequest(
        timeout_ms=10_000,
        topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)],
    )
    answer = await client.send(request, CreateTopicsResponse, to=ToController())
    assert answer.topics[0].error_code == ErrorCode.NONE
    return bytes(answer.topics[0].topic_id)


async def _produce(client: ClusterClient, name: str, topic_id: bytes, batch: bytes) -> int:
    """The base offset of the batch in partition 1."""
    partition = PartitionProduceData(index=1, records=batch)
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=[partition])
    answer = await client.send(
        ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]),
        ProduceResponse,
        to=ToLeader(name, 1),
        code_of=lambda got: got.responses[0].partition_responses[0].error_code,
    )
    result = answer.responses[0].partition_responses[0]
    assert result.error_code == ErrorCode.NONE
    return result.base_offset


async def _fetch(client: ClusterClient, name: str, topic_id: bytes) -> list[Record]:
    partition = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=MAX_BYTES)
    request = FetchRequest(
        max_wait_ms=1_000,
        min_bytes=1,
        max_bytes=MAX_BYTES,
        session_epoch=-1,
        topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])],
    )
    answer = await client.send(request, FetchResponse, to=ToLeader(name, 1))
    data = answer.responses[0].partitions[0].records
    assert data is not None
    records = []
    for pos, header in headers(data, partial_tail=True):
        check_batch(data, pos, header)
        batch = data[pos : pos + header.size]
        records.extend(iter_records(batch, max_bytes=MAX_BYTES))
    return records


def test_a_client_finds_the_broker_from_its_bootstrap_address(bootstrap: str) -> None:
    async def scenario(client: ClusterClient) -> None:
        metadata = await client.refresh()
        assert metadata.controller_id in metadata.brokers
        assert str(metadata.address_of(metadata.controller_id)) == bootstrap

    _run(bootstrap, scenario)


def test_records_of_every_codec_are_read_back_unchanged(
    bootstrap: str, new_name: Callable[[], str]
) -> None:
    async def scenario(client: ClusterClient) -> None:
        name = new_name()
        topic_id = await _create(client, name)
        now_ms = SystemClock().wall_ms()
        sent = []
        for codec in Codec:
            records = [
                Record(index, now_ms + index, b"k%d" % index, b"v" * 50, (("h", None),))
                for index in range(20)
            ]
            base = await _produce(client, name, topic_id, build_batch(records, codec=codec))
            assert base == len(sent)
            sent += [record._replace(offset=base + record.offset) for record in records]
        assert await _fetch(client, name, topic_id) == sent
        found = client.metadata.topic_by_id(topic_id)
        assert found is not None
        assert (found.name, sorted(found.partitions)) == (name, [0, 1])

    _run(bootstrap, scenario)


def test_metadata_for_a_missing_topic_fails_at_the_deadline_and_creates_nothing(
    bootstrap: str, new_name: Callable[[], str]
) -> None:
    async def scenario(client: ClusterClient) -> None:
        name = new_name()
        with pytest.raises(DeadlineExceeded) as caught:
            await client.send(FetchRequest(), FetchResponse, to=ToLeader(name, 0), timeout_s=1.5)
        assert isinstance(caught.value.last, LeaderUnknown)
        await client.refresh()
        assert client.metadata.topic(name) is None

    _run(bootstrap, scenario)
