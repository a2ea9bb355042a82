"""The number of partitions: it grows, and never shrinks."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from support.clients.librdkafka import DEADLINE_S, MakeReader, MakeSender
from support.wire.topics import MakeTopic


@pytest.mark.parametrize("count", [2, 3])
def test_the_partition_count_cannot_shrink_or_stay_the_same(
    admin: AdminClient, make_topic: MakeTopic, count: int
) -> None:
    # Invariant: partitions are only ever added; a rejected change has no effect.
    topic = make_topic(3)
    with pytest.raises(KafkaException) as raised:
        admin.create_partitions([NewPartitions(topic, count)])[topic].result(DEADLINE_S)
    assert raised.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    assert len(admin.list_topics(topic, DEADLINE_S).topics[topic].partitions) == 3


def test_partitions_added_under_a_running_group_are_read_from_their_first_offset(
    admin: AdminClient, make_topic: MakeTopic, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: records written before the group knew of the partitions are read too.
    topic = make_topic(1)
    one = reader(**{"auto.offset.reset": "earliest", "heartbeat.interval.ms": 100})
    one.subscribe(topic)
    one.until(lambda: one.owned == {(topic, 0)}, "the group runs")
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(DEADLINE_S)
    sending = sender(**{"topic.metadata.refresh.interval.ms": 100})
    for partition in range(3):
        sending.send(topic, b"%d" % partition, partition=partition)
    sending.finish()
    assert sending.failed == []
    one.until(lambda: {b"0", b"1", b"2"} <= set(one.values), "the new partitions are read")
    assert {message.offset() for message in one.read} == {0}
