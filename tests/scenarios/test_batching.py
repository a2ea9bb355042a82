"""batch.size, linger.ms and message.max.bytes: how records travel, and how big they may be."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from support.clients.librdkafka import MakeReader, MakeSender
from support.wire.batches import fetch, fetch_request, whole_batches
from support.wire.connection import Wire
from support.wire.topics import MakeTopic

RECORDS = 40
VALUE = b"x" * 100
PATIENT = {"linger.ms": 1000}


def batches(wire: Wire, topic: str) -> list[bytes]:
    return whole_batches(fetch(wire, fetch_request(topic)).records)


def test_batch_size_limits_one_batch(wire: Wire, topic: str, sender: MakeSender) -> None:
    # Invariant: no batch is larger than batch.size, and small batches are really filled.
    small = sender(**PATIENT, **{"batch.size": 1000})
    small.send(topic, *[VALUE] * RECORDS)
    small.finish()
    sizes = [len(one) for one in batches(wire, topic)]
    assert max(sizes) <= 1000
    assert len(sizes) < RECORDS


def test_linger_ms_lets_records_share_a_batch(wire: Wire, topic: str, sender: MakeSender) -> None:
    # Invariant: records sent within linger.ms share one batch.
    patient = sender(**PATIENT)
    patient.send(topic, *[VALUE] * RECORDS)
    patient.finish()
    assert len(batches(wire, topic)) == 1


def test_no_linger_sends_a_lone_record_at_once(wire: Wire, topic: str, sender: MakeSender) -> None:
    # Invariant: with linger.ms=0 a record does not wait for another one.
    hasty = sender(**{"linger.ms": 0})
    for _ in range(5):
        hasty.send(topic, VALUE)
        hasty.finish()
    assert len(batches(wire, topic)) == 5


def test_a_record_over_message_max_bytes_is_rejected_before_it_is_sent(
    topic: str, sender: MakeSender
) -> None:
    # Invariant: the client's limit is reported to the application.
    small = sender(**{"message.max.bytes": 2000})
    with pytest.raises(KafkaException) as raised:
        small.send(topic, b"x" * 3000)
    assert raised.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_record_over_the_topic_limit_is_rejected_and_the_next_is_accepted(
    make_topic: MakeTopic, sender: MakeSender
) -> None:
    # Invariant: max.message.bytes of the topic holds whatever the client allows.
    topic = make_topic(configs={"max.message.bytes": 2000})
    generous = sender(**{"linger.ms": 0, "compression.type": "none"})
    generous.send(topic, b"x" * 3000)
    generous.finish()
    assert [error.code() for error in generous.failed] == [KafkaError.MSG_SIZE_TOO_LARGE]
    generous.send(topic, b"fits")
    generous.finish()
    assert [message.offset() for message in generous.delivered] == [0]


def test_a_record_larger_than_a_fetch_is_still_read(
    topic: str, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: a consumer with small fetch limits makes progress over large records.
    large = b"x" * 50_000
    sending = sender(**{"compression.type": "none"})
    sending.send(topic, large, b"small")
    sending.finish()
    small = {"fetch.message.max.bytes": 1000, "fetch.max.bytes": 1000, "message.max.bytes": 1000}
    one = reader(**small, **{"auto.offset.reset": "earliest"})
    one.subscribe(topic)
    one.until(lambda: len(one.read) >= 2, "both are read")
    assert one.values == [large, b"small"]
