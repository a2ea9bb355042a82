"""The counters of topics."""

from headrace.metrics.topic_traffic import COUNTERS, BrokerTraffic


def test_the_total_keeps_the_counts_of_deleted_topics() -> None:
    traffic = BrokerTraffic()
    first, second = traffic.topic("a", b"1"), traffic.topic("b", b"2")
    first.bytes_in += 10
    second.bytes_in += 5
    traffic.remove(b"1")
    traffic.remove(b"1")
    assert traffic.total("bytes_in") == 15


def test_a_topic_that_is_created_again_begins_at_zero() -> None:
    traffic = BrokerTraffic()
    traffic.topic("a", b"1").messages_in += 7
    traffic.remove(b"1")
    assert traffic.topic("a", b"2").messages_in == 0
    assert traffic.total("messages_in") == 7


def test_a_topic_has_one_object() -> None:
    traffic = BrokerTraffic()
    assert traffic.topic("a", b"1") is traffic.topic("a", b"1")


def test_every_counter_survives_its_topic() -> None:
    traffic = BrokerTraffic()
    topic = traffic.topic("a", b"1")
    for number, name in enumerate(COUNTERS, start=1):
        setattr(topic, name, number)
    traffic.remove(b"1")
    assert [traffic.total(name) for name in COUNTERS] == list(range(1, len(COUNTERS) + 1))
