"""Writes one record, as a producer with acks=all would."""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from headrace.client.client import ClusterClient, ToLeader
from headrace.client.errors import RequestRefused, code_of_number
from headrace.client.results import TopicPartition
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.partitioner import partition_for_key
from headrace.records.record import Record, build_batch

ALL_REPLICAS: Final = -1
_BY_NAME: Final = 12


class NewRecord(NamedTuple):
    """A record to write; the timestamp is in Unix milliseconds."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def choose_partition(key: bytes | None, partitions: Sequence[int], random: Random) -> int:
    """The partition that Java's default partitioner chooses for the key; a random one without."""
    if key is None:
        return random.choice(partitions)
    return partition_for_key(key, len(partitions))


async def produce(
    client: ClusterClient, partition: TopicPartition, record: NewRecord, *, timeout_s: float
) -> int:
    """Writes the record and returns its offset; raises `ClientError`.

    It is sent once: after a lost connection it may have been written.
    """
    batch = build_batch(
        [Record(0, record.timestamp, record.key, record.value, record.headers)],
    )
    await client.refresh([partition.topic], timeout_s=timeout_s)
    answer = await client.send(
        ProduceRequest(
            acks=ALL_REPLICAS,
            timeout_ms=int(timeout_s * 1000),
            topic_data=[
                TopicProduceData(
                    name=partition.topic,
                    partition_data=[PartitionProduceData(index=partition.partition, records=batch)],
                )
            ],
        ),
        ProduceResponse,
        to=ToLeader(partition.topic, partition.partition),
        timeout_s=timeout_s,
        retry=False,
        at_most=_BY_NAME,
    )
    result = answer.responses[0].partition_responses[0]
    if result.error_code:
        detail = f" ({result.error_message})" if result.error_message else ""
        raise RequestRefused(
            code_of_number(result.error_code), f"{partition} did not take the record{detail}"
        )
    return result.base_offset
