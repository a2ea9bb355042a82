"""The number of requests that are looked at is bounded in each second."""

from headrace.broker.tracing.request_tracing import RateLimit


def test_a_second_has_room_for_so_many_requests() -> None:
    limit = RateLimit(2)
    assert limit.has_room(5.0)
    limit.take()
    limit.take()
    assert not limit.has_room(5.99)
    assert limit.has_room(6.0)
