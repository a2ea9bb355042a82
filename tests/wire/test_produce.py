"""Produce, request by request: appended batches, rejected batches and their errors."""

from collections.abc import Callable

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.batch_header import read_header
from headrace.records.codec import Codec
from support.waiting import wait_for
from support.wire.batches import (
    PRODUCE_BY_NAME,
    batch,
    fetch,
    fetch_request,
    now_ms,
    produce,
    records_of,
    topic_id_of,
    values_of,
    whole_batches,
)
from support.wire.connection import Wire
from support.wire.topics import MakeTopic

PRODUCE = APIS[ApiKey.PRODUCE]
NO_ID = bytes(16)


@pytest.mark.parametrize("version", range(PRODUCE.min_version, PRODUCE.max_version + 1))
def test_every_version_appends_and_returns_the_offset(wire: Wire, topic: str, version: int) -> None:
    topic_id = topic_id_of(wire, topic) if version > PRODUCE_BY_NAME else NO_ID
    first = produce(wire, topic, batch(b"a", b"b"), version=version, topic_id=topic_id)
    second = produce(wire, topic, batch(b"c"), version=version, topic_id=topic_id, acks=1)
    assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    assert (second.error_code, second.base_offset) == (0, 2)
    if version >= 5:
        assert first.log_start_offset == 0
    assert values_of(fetch(wire, fetch_request(topic)).records) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_is_kept_as_the_producer_compressed_it(
    wire: Wire, topic: str, codec: Codec
) -> None:
    sent = batch(b"x" * 2000, b"y" * 2000, codec=codec)
    assert produce(wire, topic, sent).error_code == 0
    (kept,) = whole_batches(fetch(wire, fetch_request(topic)).records)
    assert kept[21:] == sent[21:]  # offset and leader epoch are the broker's, the rest is not
    assert read_header(kept).codec is codec


def test_zstd_needs_version_7(wire: Wire, topic: str) -> None:
    refused = produce(wire, topic, batch(b"a" * 100, codec=Codec.ZSTD), version=6)
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(wire, topic, batch(b"a" * 100, codec=Codec.ZSTD), version=7).error_code == 0


def test_acks_0_appends_without_a_response(wire: Wire, topic: str) -> None:
    wire.send(_request(topic, batch(b"silent"), acks=0), PRODUCE_BY_NAME)
    # The next answer on this connection belongs to the next request.
    assert produce(wire, topic, batch(b"loud")).base_offset == 1
    assert values_of(fetch(wire, fetch_request(topic)).records) == [b"silent", b"loud"]


def test_acks_0_for_an_unknown_topic_closes_the_connection(
    wire: Wire, new_name: Callable[[], str]
) -> None:
    wire.send(_request(new_name(), batch(b"lost"), acks=0), PRODUCE_BY_NAME)
    assert wire.ends()


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_rejected(wire: Wire, topic: str, acks: int) -> None:
    assert produce(wire, topic, batch(b"a"), acks=acks).error_code == (
        ErrorCode.INVALID_REQUIRED_ACKS
    )
    assert fetch(wire, fetch_request(topic)).high_watermark == 0


def test_unknown_topics_partitions_and_ids_return_errors(
    wire: Wire, topic: str, new_name: Callable[[], str]
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(wire, new_name(), batch(b"a")).error_code == unknown
    assert produce(wire, topic, batch(b"a"), partition=7).error_code == unknown
    assert produce(wire, topic, batch(b"a"), partition=-1).error_code == unknown
    by_id = produce(wire, "", batch(b"a"), version=13, topic_id=b"\x07" * 16)
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_clients_cannot_write_to_internal_topics(wire: Wire) -> None:
    internal = "__consumer_offsets"
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=internal)])

    def created() -> bool:
        (told,) = wire.call(asked, MetadataResponse, 12).topics
        return told.is_internal and bool(told.partitions)

    wait_for(created, "the internal topic is there")
    refused = produce(wire, internal, batch(b"v", key=b"k"))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_one_partitions_error_does_not_affect_another(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    bad = bytearray(batch(b"a"))
    bad[-1] ^= 1
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=0, records=bytes(bad)),
                    PartitionProduceData(index=1, records=batch(b"fine")),
                ],
            )
        ],
    )
    (answer,) = wire.call(request, ProduceResponse, PRODUCE_BY_NAME).responses
    errors = {part.index: part.error_code for part in answer.partition_responses}
    assert errors == {0: ErrorCode.CORRUPT_MESSAGE, 1: ErrorCode.NONE}
    assert values_of(fetch(wire, fetch_request(topic, partition=1)).records) == [b"fine"]


def test_a_batch_over_max_message_bytes_is_too_large(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic(1, {"max.message.bytes": 1000})
    assert produce(wire, topic, batch(b"a" * 1000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(wire, topic, batch(b"a" * 900)).error_code == 0


def test_a_compacted_topic_reports_the_record_without_a_key(
    wire: Wire, make_topic: MakeTopic
) -> None:
    topic = make_topic(1, {"cleanup.policy": "compact"})
    result = produce(wire, topic, batch(b"a", b"b"))
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [0, 1]
    assert result.error_message
    assert produce(wire, topic, batch(b"a", key=b"k")).error_code == 0


def test_log_append_time_replaces_the_producers(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic(1, {"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    result = produce(wire, topic, batch(b"a", timestamp=1000))
    assert before <= result.log_append_time_ms <= now_ms()
    (record,) = records_of(fetch(wire, fetch_request(topic)).records)
    assert record.timestamp == result.log_append_time_ms


def test_timestamps_outside_the_topics_window_are_rejected(
    wire: Wire, make_topic: MakeTopic
) -> None:
    hour = 3_600_000
    topic = make_topic(
        1,
        {"message.timestamp.before.max.ms": hour, "message.timestamp.after.max.ms": hour},
    )
    for timestamp in (now_ms() - 2 * hour, now_ms() + 2 * hour):
        result = produce(wire, topic, batch(b"a", timestamp=timestamp))
        assert result.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in result.record_errors] == [0]
    assert produce(wire, topic, batch(b"a")).error_code == 0


def test_a_topics_codec_wins_over_the_producers(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic(1, {"compression.type": "lz4"})
    assert produce(wire, topic, batch(b"a" * 500, b"b", codec=Codec.GZIP)).error_code == 0
    data = fetch(wire, fetch_request(topic))
    (kept,) = whole_batches(data.records)
    assert read_header(kept).codec is Codec.LZ4
    assert values_of(data.records) == [b"a" * 500, b"b"]


# --- idempotent producers ---------------------------------------------------------------------


def test_producer_ids_are_unique(wire: Wire) -> None:
    ids = {_producer(wire)[0] for _ in range(20)}
    assert len(ids) == 20


def test_a_duplicate_gets_the_offset_of_the_original(wire: Wire, topic: str) -> None:
    producer = _producer(wire)
    sent = [_sequenced(producer, sequence, b"%d" % sequence) for sequence in range(5)]
    offsets = [produce(wire, topic, one).base_offset for one in sent]
    assert offsets == [0, 1, 2, 3, 4]
    for offset, one in enumerate(sent):  # the window holds the last five
        again = produce(wire, topic, one)
        assert (again.error_code, again.base_offset) == (0, offset)
    assert fetch(wire, fetch_request(topic)).high_watermark == 5


def test_a_duplicate_older_than_the_window_is_out_of_order(wire: Wire, topic: str) -> None:
    producer = _producer(wire)
    sent = [_sequenced(producer, sequence, b"x") for sequence in range(6)]
    for one in sent:
        assert produce(wire, topic, one).error_code == 0
    assert produce(wire, topic, sent[0]).error_code == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert fetch(wire, fetch_request(topic)).high_watermark == 6


def test_a_sequence_gap_is_rejected(wire: Wire, topic: str) -> None:
    producer = _producer(wire)
    assert produce(wire, topic, _sequenced(producer, 0, b"a", b"b")).error_code == 0
    gap = produce(wire, topic, _sequenced(producer, 3, b"d"))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(wire, topic, _sequenced(producer, 2, b"c")).base_offset == 2


def test_an_unknown_producer_can_start_at_any_sequence(wire: Wire, topic: str) -> None:
    # Its earlier batches may have been deleted (KIP-360).
    assert produce(wire, topic, _sequenced(_producer(wire), 5, b"a")).error_code == 0


def test_a_new_epoch_starts_at_zero_and_fences_the_old(wire: Wire, topic: str) -> None:
    producer_id, epoch = _producer(wire)
    old, new = (producer_id, epoch), (producer_id, epoch + 1)
    assert produce(wire, topic, _sequenced(old, 0, b"a")).error_code == 0
    wrong = produce(wire, topic, _sequenced(new, 1, b"b"))
    assert wrong.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(wire, topic, _sequenced(new, 0, b"b")).error_code == 0
    fenced = produce(wire, topic, _sequenced(old, 1, b"c"))
    assert fenced.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_around(wire: Wire, topic: str) -> None:
    producer = _producer(wire)
    last = 2**31 - 1
    assert produce(wire, topic, _sequenced(producer, last, b"a")).error_code == 0
    assert produce(wire, topic, _sequenced(producer, 0, b"b")).error_code == 0
    assert produce(wire, topic, _sequenced(producer, last, b"a")).base_offset == 0


def test_a_producer_id_without_a_sequence_is_invalid(wire: Wire, topic: str) -> None:
    bad = batch(b"a", producer_id=4, producer_epoch=0, base_sequence=-1)
    assert produce(wire, topic, bad).error_code == ErrorCode.INVALID_RECORD


def test_sequences_of_one_producer_are_separate_for_each_partition(
    wire: Wire, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    producer = _producer(wire)
    for partition in range(2):
        result = produce(wire, topic, _sequenced(producer, 0, b"a"), partition=partition)
        assert (result.error_code, result.base_offset) == (0, 0)


def _producer(wire: Wire) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

    def ready() -> InitProducerIdResponse | None:
        answer = wire.call(request, InitProducerIdResponse)
        # Apache Kafka returns this until it has its first block of ids.
        return None if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else answer

    answer = wait_for(ready, "a producer id")
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def _sequenced(producer: tuple[int, int], sequence: int, *values: bytes) -> bytes:
    return batch(
        *values, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence
    )


def _request(topic: str, records: bytes, *, acks: int) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=records)]
            )
        ],
    )
