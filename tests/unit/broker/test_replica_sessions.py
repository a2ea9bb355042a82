"""A follower's fetch session lasts as long as the registration that it began under."""

from random import Random

from headrace.broker.replica_session import ReplicaSession, ReplicaSessions
from headrace.protocol.errors import ErrorCode
from headrace.replication.replicated_leader import ReplicatedLeader


class Unthrottled:
    def holds_back(self, leader: ReplicatedLeader, replica_id: int) -> bool:
        return False

    def sent(self, leader: ReplicatedLeader, replica_id: int, size_bytes: int) -> None:
        pass


def test_a_follower_that_registered_anew_names_all_its_partitions_again() -> None:
    # Found by the simulator: an idle partition stayed out of sync after its follower's session
    # with the store had expired, because no fetch named it under the new broker epoch.
    sessions = ReplicaSessions(Random(1), Unthrottled())
    first = sessions.begin(2, broker_epoch=10, session_id=0, epoch=0)
    assert isinstance(first, ReplicaSession)
    assert sessions.begin(2, 10, first.session_id, 1) is first
    assert sessions.begin(2, 11, first.session_id, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    again = sessions.begin(2, 11, session_id=0, epoch=0)
    assert isinstance(again, ReplicaSession)
    assert again.broker_epoch == 11
