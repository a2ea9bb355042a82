"""Auto-commit and auto.offset.reset: where a consumer starts to read."""

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from support.clients.librdkafka import DEADLINE_S, MakeReader, MakeSender
from support.waiting import wait_for

FIRST, SECOND = [b"0", b"1", b"2"], [b"3", b"4"]
FROM_START = {"auto.offset.reset": "earliest"}
BY_HAND = {"enable.auto.commit": False}


def fill(sender: MakeSender, topic: str, values: list[bytes]) -> None:
    one = sender()
    one.send(topic, *values)
    one.finish()


def committed(consumer: Consumer, topic: str) -> int:
    (place,) = consumer.committed([TopicPartition(topic, 0)], DEADLINE_S)
    return int(place.offset)


def test_auto_commit_resumes_where_the_last_consumer_closed(
    topic: str, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: with auto-commit, close() commits what poll() has returned.
    fill(sender, topic, FIRST)
    before = reader(**FROM_START)
    before.subscribe(topic)
    before.until(lambda: before.values == FIRST, "the first records")
    before.close()
    fill(sender, topic, SECOND)
    after = reader(**FROM_START)
    after.subscribe(topic)
    after.until(lambda: len(after.read) >= len(SECOND), "the second records")
    assert after.values == SECOND


def test_auto_commit_commits_while_the_consumer_runs(
    topic: str, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: a consumer that never closes has its position committed at every interval.
    fill(sender, topic, FIRST)
    one = reader(**FROM_START, **{"auto.commit.interval.ms": 100})
    one.subscribe(topic)
    one.until(lambda: committed(one.consumer, topic) == len(FIRST), "the position is committed")


def test_without_auto_commit_the_next_consumer_starts_again(
    topic: str, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: nothing is committed that the application did not commit.
    fill(sender, topic, FIRST)
    for _ in range(2):
        one = reader(**FROM_START, **BY_HAND)
        one.subscribe(topic)
        one.until(lambda one=one: len(one.read) >= len(FIRST), "all records")
        assert one.values == FIRST
        one.close()


def test_the_next_consumer_starts_at_a_manual_commit(
    topic: str, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: the committed offset is the next one to read.
    fill(sender, topic, FIRST)
    one = reader(**FROM_START, **BY_HAND)
    one.subscribe(topic)
    one.until(lambda: len(one.read) == len(FIRST), "all records")
    one.consumer.commit(message=one.read[1], asynchronous=False)
    one.close()
    after = reader(**FROM_START, **BY_HAND)
    after.subscribe(topic)
    after.until(lambda: after.read, "the rest")
    assert after.values == FIRST[2:]


def test_reset_earliest_reads_from_the_start(
    topic: str, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: a group without a position sees every record that is there.
    fill(sender, topic, FIRST)
    one = reader(**{"auto.offset.reset": "earliest"})
    one.subscribe(topic)
    one.until(lambda: len(one.read) >= len(FIRST), "all records")
    assert one.values == FIRST


def test_reset_latest_reads_only_later_records(
    topic: str, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: a group without a position starts at the end, and misses nothing from then on.
    fill(sender, topic, FIRST)
    one = reader(**{"auto.offset.reset": "latest", "enable.partition.eof": True})
    one.subscribe(topic)
    one.until(lambda: one.errors, "the end of the log is reached")
    fill(sender, topic, SECOND)
    one.until(lambda: len(one.read) >= len(SECOND), "the new records")
    assert one.values == SECOND


def test_reset_error_is_reported_to_the_application(
    topic: str, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: the consumer never chooses an offset by itself.
    fill(sender, topic, FIRST)
    one = reader(**{"auto.offset.reset": "error"})
    one.subscribe(topic)
    one.until(lambda: one.errors, "an error")
    assert one.errors[0].code() == KafkaError._AUTO_OFFSET_RESET
    assert one.read == []


@pytest.mark.parametrize(("reset", "expected"), [("earliest", FIRST), ("latest", [])])
def test_a_position_outside_the_log_is_reset(
    topic: str, sender: MakeSender, reader: MakeReader, reset: str, expected: list[bytes]
) -> None:
    # Invariant: auto.offset.reset also holds where the committed offset does not exist.
    fill(sender, topic, FIRST)
    one = reader(**{"auto.offset.reset": reset, "enable.partition.eof": True})
    one.consumer.commit(offsets=[TopicPartition(topic, 0, 1000)], asynchronous=False)
    one.subscribe(topic)
    one.until(lambda: one.errors, "the end of the log is reached")
    assert one.values == expected


def test_only_stored_positions_are_committed(
    topic: str, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: with enable.auto.offset.store=false the application marks the processed records.
    fill(sender, topic, FIRST)
    stores = {"enable.auto.offset.store": False, "auto.commit.interval.ms": 50}
    one = reader(**FROM_START, **stores)
    one.subscribe(topic)
    one.until(lambda: len(one.read) == len(FIRST), "all records")
    one.consumer.store_offsets(one.read[0])
    wait_for(lambda: committed(one.consumer, topic) == 1, "it is committed", deadline_s=DEADLINE_S)
    one.close()
    after = reader(**BY_HAND)
    assert committed(after.consumer, topic) == 1
