"""Writes records for a test: one request, acknowledged by all in-sync replicas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.client import ClusterClient, ToLeader
from headrace.client.errors import RequestRefused, code_of_number
from headrace.client.results import moved
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.record import Headers, Record, build_batch

ALL_REPLICAS: Final = -1
_BY_NAME: Final = 12  # the newest version of Produce that has topic names instead of ids


@dataclass(frozen=True, slots=True)
class RecordToWrite:
    """A record to write."""

    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Written:
    """The partition and offset of a written record."""

    partition: int
    offset: int


async def produce(
    client: ClusterClient,
    topic: str,
    partition: int,
    records: Sequence[RecordToWrite],
    *,
    timeout_s: float,
) -> list[Written]:
    """Writes one batch to one partition; raises `RequestRefused`."""
    batch = build_batch(
        Record(number, one.timestamp_ms, one.key, one.value, one.headers)
        for number, one in enumerate(records)
    )
    data = PartitionProduceData(index=partition, records=batch)
    answer = await client.send(
        ProduceRequest(
            acks=ALL_REPLICAS,
            timeout_ms=int(timeout_s * 1000),
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        ),
        ProduceResponse,
        to=ToLeader(topic, partition),
        timeout_s=timeout_s,
        at_most=_BY_NAME,
        code_of=lambda got: moved([_only(got).error_code]),
    )
    result = _only(answer)
    if result.error_code:
        code = code_of_number(result.error_code)
        raise RequestRefused(code, f"produce to {topic}-{partition}: {result.error_message or ''}")
    return [Written(partition, result.base_offset + number) for number in range(len(records))]


def _only(answer: ProduceResponse) -> PartitionProduceResponse:
    (topic,) = answer.responses
    (partition,) = topic.partition_responses
    return partition
