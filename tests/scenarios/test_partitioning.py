"""Which partition a record goes to."""

from confluent_kafka import TopicPartition

from support.clients.librdkafka import MakeReader, MakeSender
from support.wire.topics import MakeTopic

# Of Java's own partitioner, over 7 partitions.
JAVA = {b"a": 5, b"b": 6, b"kafka": 3, b"headrace": 6, b"": 2, b"0": 3, b"42": 3}


def test_murmur2_chooses_the_same_partitions_as_java(
    make_topic: MakeTopic, sender: MakeSender
) -> None:
    # Invariant: a key has one partition, whichever client produces it.
    topic = make_topic(7)
    one = sender(partitioner="murmur2_random")
    for _ in range(2):
        for key in JAVA:
            one.send(topic, b"value", key=key)
    one.finish()
    assert {(message.key(), message.partition()) for message in one.delivered} == set(JAVA.items())


def test_records_of_a_key_keep_their_order(
    make_topic: MakeTopic, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: order is kept within a partition, and so for each key.
    topic = make_topic(3)
    one = sender(partitioner="murmur2_random")
    for number in range(60):
        one.send(topic, b"%d" % number, key=b"k%d" % (number % 5))
    one.finish()
    all_of_it = reader()
    all_of_it.consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    all_of_it.until(lambda: len(all_of_it.read) == 60, "everything is read")
    for key in range(5):
        values = [m.value() for m in all_of_it.read if m.key() == b"k%d" % key]
        assert values == [b"%d" % number for number in range(key, 60, 5)]


def test_round_robin_fills_partitions_evenly(make_topic: MakeTopic, sender: MakeSender) -> None:
    # Invariant: a partition that the application names is the one that is used.
    topic = make_topic(4)
    one = sender()
    for number in range(20):
        one.send(topic, b"value", partition=number % 4)
    one.finish()
    ends = {message.partition(): message.offset() for message in one.delivered}
    assert ends == {0: 4, 1: 4, 2: 4, 3: 4}


def test_records_without_a_key_are_spread(make_topic: MakeTopic, sender: MakeSender) -> None:
    # Invariant: no partition is left out for long (chance of that here: below 10**-20).
    topic = make_topic(2)
    one = sender(**{"partitioner": "murmur2_random", "sticky.partitioning.linger.ms": 0})
    one.send(topic, *[b"value"] * 80)
    one.finish()
    assert {message.partition() for message in one.delivered} == {0, 1}
