"""A batch with very many records for a topic that validates each record."""

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch
from headrace.records.record_validation import RECORDS_PER_SLICE
from support.wire.batches import PRODUCE_BY_NAME, fetch, fetch_request, now_ms, records_of
from support.wire.connection import Wire, spec_of
from support.wire.topics import MakeTopic

MANY = 5 * RECORDS_PER_SLICE


def keyed(count: int, *, without_key: int | None = None, codec: Codec = Codec.NONE) -> bytes:
    now = now_ms()
    return build_batch(
        [
            Record(index, now, None if index == without_key else b"k%d" % index, b"v")
            for index in range(count)
        ],
        codec=codec,
    )


def request(topic: str, *partitions: tuple[int, bytes]) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=index, records=records)
                    for index, records in partitions
                ],
            )
        ],
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_later_request_does_not_overtake_a_long_validation(
    wire: Wire, make_topic: MakeTopic, codec: Codec
) -> None:
    topic = make_topic(1, {"cleanup.policy": "compact"})
    sent = request(topic, (0, keyed(MANY, codec=codec)))
    later = request(topic, (0, keyed(1)))
    spec = spec_of(sent)
    for each in (sent, later):
        wire.send(each, PRODUCE_BY_NAME)
    answers = [wire.receive(spec, PRODUCE_BY_NAME)[1] for _ in range(2)]
    offsets = []
    for answer in answers:
        assert isinstance(answer, ProduceResponse)
        (partition,) = answer.responses[0].partition_responses
        assert partition.error_code == 0
        offsets.append(partition.base_offset)
    assert offsets == [0, MANY]


def test_one_invalid_record_is_reported_and_the_other_partition_is_appended(
    wire: Wire, make_topic: MakeTopic
) -> None:
    topic = make_topic(2, {"cleanup.policy": "compact"})
    answer = wire.call(
        request(topic, (0, keyed(MANY, without_key=MANY - 1)), (1, keyed(MANY))),
        ProduceResponse,
        PRODUCE_BY_NAME,
    )
    refused, taken = answer.responses[0].partition_responses
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [MANY - 1]
    assert (taken.error_code, taken.base_offset) == (0, 0)


def test_a_topics_codec_is_applied_to_many_records(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic(1, {"compression.type": "zstd"})
    answer = wire.call(request(topic, (0, keyed(MANY))), ProduceResponse, PRODUCE_BY_NAME)
    assert answer.responses[0].partition_responses[0].error_code == 0
    kept = records_of(fetch(wire, fetch_request(topic)).records)
    assert [record.key for record in kept] == [b"k%d" % index for index in range(MANY)]
