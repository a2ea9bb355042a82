"""The leader's side of all fetch sessions with followers, one for each follower (KIP-227)."""

from collections.abc import Callable
from random import Random

from headrace.broker.fetch.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, MAX_SESSION_ID
from headrace.broker.replication.catch_up_throttle import CatchUpThrottle
from headrace.broker.replication.fetch_session_at_leader import (
    FollowerFetchSession,
    Key,
    SendThrottle,
)
from headrace.protocol.errors import ErrorCode


class FollowerFetchSessions:
    """The sessions of all followers: the latest one of each."""

    def __init__(
        self,
        random: Random,
        throttle: SendThrottle,
        new_catch_up_throttle: Callable[[], CatchUpThrottle],
    ) -> None:
        self._random = random
        self._throttle = throttle
        self._new_catch_up_throttle = new_catch_up_throttle
        self._by_replica: dict[int, FollowerFetchSession] = {}

    def begin(
        self, replica_id: int, broker_epoch: int, session_id: int, epoch: int
    ) -> FollowerFetchSession | ErrorCode:
        """The session that a fetch belongs to; a new one for a first fetch.

        A follower that has registered again must name all its partitions again: leaders count only
        fetches with its current broker epoch, and an idle partition is not named otherwise.
        """
        known = self._by_replica.get(replica_id)
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if known is not None:
                self._end_session(known)
            session_id = self._random.randint(1, MAX_SESSION_ID)
            session = FollowerFetchSession(
                session_id, replica_id, broker_epoch, self._throttle, self._new_catch_up_throttle()
            )
            if epoch == INITIAL_EPOCH:
                self._by_replica[replica_id] = session
            return session
        if known is None or known.session_id != session_id or known.broker_epoch != broker_epoch:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if known.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        known.finish()
        known.next_epoch()
        return known

    def has_fetched_since(self, replica_id: int, broker_epoch: int, key: Key, since: float) -> bool:
        """Whether this incarnation of a follower has fetched since then, including this partition.

        An idle partition is named once, and no later fetch names it again.
        """
        session = self._by_replica.get(replica_id)
        return (
            session is not None
            and session.broker_epoch == broker_epoch
            and session.last_fetch_at >= since
            and session.has(key)
        )

    def _end_session(self, session: FollowerFetchSession) -> None:
        del self._by_replica[session.replica_id]
        session.finish()
        session.close()
