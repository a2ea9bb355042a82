"""Which requests are sampled: a limited number in each second, and none of followers."""

from headrace.broker.tracing.request_tracing import RateLimit, is_from_follower
from headrace.protocol.messages.fetch import FetchReplicaState, FetchRequest


def test_a_second_has_room_for_so_many_requests() -> None:
    limit = RateLimit(2)
    assert limit.has_room(5.0)
    limit.take()
    limit.take()
    assert not limit.has_room(5.99)
    assert limit.has_room(6.0)


def test_fetches_of_followers_are_not_traced() -> None:
    assert is_from_follower(FetchRequest(replica_id=2))
    assert is_from_follower(FetchRequest(replica_state=FetchReplicaState(replica_id=2)))
    assert not is_from_follower(FetchRequest())
