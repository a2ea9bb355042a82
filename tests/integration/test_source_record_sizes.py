"""Record sizes are estimated from a sample where Spark does not report them."""

import pytest
from confluent_kafka import Producer

from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.sampling import SAMPLE_RECORDS, average_record_bytes
from headrace.pipeline.source.settings import ReadSettings
from support.wire.topics import MakeTopic


def fill(bootstrap: str, topic: str, partition: int, records: int, value_bytes: int) -> OffsetRange:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for _ in range(records):
        producer.produce(topic, b"v" * value_bytes, b"key", partition=partition)
    assert producer.flush(60) == 0
    return OffsetRange(topic, partition, 0, records)


def test_topics_are_weighted_by_their_record_counts(bootstrap: str, make_topic: MakeTopic) -> None:
    small, large = make_topic(2), make_topic(1)
    ranges = [
        fill(bootstrap, small, 0, 10, 7),
        fill(bootstrap, small, 1, 20, 7),
        fill(bootstrap, large, 0, 10, 997),
    ]
    found = average_record_bytes(ranges, ReadSettings(bootstrap))
    assert found == pytest.approx((30 * 10 + 10 * 1000) / 40)


def test_only_the_start_of_a_long_range_is_read(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 0, SAMPLE_RECORDS, 7)
    fill(bootstrap, topic, 0, 100, 100_000)
    wanted = OffsetRange(topic, 0, 0, SAMPLE_RECORDS + 100)
    assert average_record_bytes([wanted], ReadSettings(bootstrap)) == 10


def test_without_records_the_size_is_unknown(bootstrap: str, topic: str) -> None:
    assert average_record_bytes([OffsetRange(topic, 0, 0, 0)], ReadSettings(bootstrap)) is None
    assert average_record_bytes([], ReadSettings(bootstrap)) is None
