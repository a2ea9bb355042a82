"""A follower's fetch session lasts as long as the registration that it began under."""

from functools import partial
from random import Random

from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.replication.catch_up_throttle import CatchUpThrottle
from headrace.broker.replication.fetch_session_at_leader import FetchPosition, FollowerFetchSession
from headrace.broker.replication.fetch_sessions_at_leader import FollowerFetchSessions
from headrace.protocol.errors import ErrorCode
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig

TOPIC_ID = b"t" * 16


class Unthrottled:
    def is_throttled(self, leader: Leader, replica_id: int) -> bool:
        return False

    def sent(self, leader: Leader, replica_id: int, size_bytes: int) -> None:
        pass


def no_log(_replica: Replica, _config: LogConfig) -> Log:
    raise AssertionError


def test_a_follower_that_registered_again_sends_all_its_partitions() -> None:
    # Otherwise an idle partition would stay out of sync after a new registration of its follower:
    # no fetch would contain it under the new broker epoch.
    sessions = FollowerFetchSessions(Random(1), Unthrottled(), partial(CatchUpThrottle, 1 << 20))
    first = sessions.begin(2, broker_epoch=10, session_id=0, epoch=0)
    assert isinstance(first, FollowerFetchSession)
    assert sessions.begin(2, 10, first.session_id, 1) is first
    assert sessions.begin(2, 11, first.session_id, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    again = sessions.begin(2, 11, session_id=0, epoch=0)
    assert isinstance(again, FollowerFetchSession)
    assert again.broker_epoch == 11


def test_a_follower_is_active_for_the_partitions_of_its_session() -> None:
    # A follower may fetch an idle partition while it is in sync, and then be removed from the ISR
    # by older metadata. Its session must let it join again.
    table = PartitionTable(no_log)
    sessions = FollowerFetchSessions(Random(1), Unthrottled(), partial(CatchUpThrottle, 1 << 20))
    session = sessions.begin(2, 10, session_id=0, epoch=0)
    assert isinstance(session, FollowerFetchSession)
    session.apply_positions(table, [FetchPosition(TOPIC_ID, 0, 0, -1, 0, 0, 1)], now=100.0)
    assert sessions.has_fetched_since(2, 10, (TOPIC_ID, 0), since=99.0)
    assert not sessions.has_fetched_since(2, 10, (TOPIC_ID, 0), since=101.0)
    assert not sessions.has_fetched_since(2, 11, (TOPIC_ID, 0), since=99.0)
    assert not sessions.has_fetched_since(2, 10, (TOPIC_ID, 1), since=99.0)
    assert not sessions.has_fetched_since(3, 10, (TOPIC_ID, 0), since=99.0)
