"""Record batches for raw Produce requests, and parts of their requests and responses."""

import struct
import time

from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.batch_header import HEADER_SIZE, crc_of
from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch, iter_records
from support.wire.connection import Wire

PRODUCE_BY_NAME = 12
PRODUCE_BY_ID = 13
"""The last version with topic names; version 13 has topic ids."""
FETCH_BY_NAME = 12
MAX_DECOMPRESSED_BYTES = 64 << 20


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    codec: Codec = Codec.NONE,
    timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """One batch with a record per value."""
    stamp = now_ms() if timestamp is None else timestamp
    return build_batch(
        [Record(offset, stamp, key, value) for offset, value in enumerate(values)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
    )


def patched(data: bytes, at: int, code: str, value: int, *, fix_crc: bool = True) -> bytes:
    """The batch with one header field overwritten; its CRC is corrected by default."""
    changed = bytearray(data)
    struct.pack_into(">" + code, changed, at, value)
    if fix_crc:
        struct.pack_into(">I", changed, 17, crc_of(changed, 0, len(changed)))
    return bytes(changed)


def with_payload(data: bytes, payload: bytes, *, codec: Codec) -> bytes:
    """The batch's header with another payload, and with correct lengths and CRC."""
    changed = bytearray(data[:HEADER_SIZE]) + payload
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    (attributes,) = struct.unpack_from(">h", changed, 21)
    struct.pack_into(">h", changed, 21, (attributes & ~7) | codec)
    struct.pack_into(">I", changed, 17, crc_of(changed, 0, len(changed)))
    return bytes(changed)


def produce(
    wire: Wire,
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = PRODUCE_BY_NAME,
    topic_id: bytes = bytes(16),
    transactional_id: str | None = None,
) -> PartitionProduceResponse:
    """Appends to one partition and returns the broker's response for it."""
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=partition, records=records)],
            )
        ],
    )
    response = wire.call(request, ProduceResponse, version)
    (answered,) = response.responses
    (result,) = answered.partition_responses
    assert result.index == partition
    return result


def fetch_request(
    topic: str = "",
    offset: int = 0,
    *,
    partition: int = 0,
    topic_id: bytes = bytes(16),
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 24,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    session_id: int = 0,
    session_epoch: int = -1,
) -> FetchRequest:
    """A Fetch request for one partition."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=current_leader_epoch,
                        last_fetched_epoch=last_fetched_epoch,
                    )
                ],
            )
        ],
    )


def fetch(wire: Wire, request: FetchRequest, version: int = FETCH_BY_NAME) -> FetchPartitionData:
    """The response to a fetch of one partition."""
    response = wire.call(request, FetchResponse, version)
    assert response.error_code == 0
    (topic,) = response.responses
    (data,) = topic.partitions
    return data


def whole_batches(data: object) -> list[bytes]:
    """The batches of a record set; like in clients, a partial one at the end is ignored."""
    buffer = bytes(data or b"")  # type: ignore[call-overload]
    found: list[bytes] = []
    pos = 0
    while len(buffer) - pos >= HEADER_SIZE:
        size = int.from_bytes(buffer[pos + 8 : pos + 12], "big") + 12
        if pos + size > len(buffer):
            break
        found.append(buffer[pos : pos + size])
        pos += size
    return found


def records_of(data: object) -> list[Record]:
    return [
        record
        for one in whole_batches(data)
        for record in iter_records(one, max_bytes=MAX_DECOMPRESSED_BYTES)
    ]


def values_of(data: object) -> list[bytes | None]:
    return [record.value for record in records_of(data)]


def topic_id_of(wire: Wire, topic: str) -> bytes:
    """The topic id from Metadata; zeros if the topic does not exist."""
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    (told,) = wire.call(asked, MetadataResponse).topics
    return told.topic_id
