"""A test as users write them: a topic, a record in, a record out."""

from headrace.testing import Headrace


def test_a_record_comes_back(headrace: Headrace, number: int) -> None:
    topic = f"orders-{number}"
    headrace.create_topic(topic)
    headrace.produce(topic, b"a record")
    assert len(headrace.consume(topic, 1)) == 1
