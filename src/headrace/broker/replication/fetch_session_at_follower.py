"""The follower's side of the fetch session with one leader (KIP-227). Pure.

A fetch names the partitions whose position has changed, and those that are no longer copied.
Fetches are numbered across all sessions: a response counts for a partition only if no later fetch
has named the partition, and only if its session has not ended.
"""

from typing import Final

from headrace.broker.replication.partition_fetch_state import Key, PartitionFetchState
from headrace.protocol.messages.fetch import FetchForgottenTopic
from headrace.replication.follower import Follower

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0


class ReplicaFetchSession:
    """The partitions that are copied from one broker, and the positions that it knows."""

    __slots__ = (
        "_forgotten",
        "_unconfirmed_removals",
        "began",
        "due",
        "epoch",
        "number",
        "session_id",
        "states",
    )

    def __init__(self) -> None:
        self.states: dict[Key, PartitionFetchState] = {}
        self.due: dict[Key, PartitionFetchState] = {}  # the partitions that the next fetch names
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH  # session epoch of the next fetch
        self.number = 0  # number of the last fetch
        self.began = 0  # the number of the fetch that began the session
        self._forgotten: list[Key] = []
        # Removed partitions that the leader may still count, by the number of the fetch that
        # removes them.
        self._unconfirmed_removals: dict[Key, int] = {}

    @property
    def has_changes(self) -> bool:
        """Whether the leader does not yet know all partitions and positions."""
        return bool(self.due or self._forgotten)

    @property
    def is_needed(self) -> bool:
        """Whether there are partitions to copy or changes to send."""
        return bool(self.states or self._forgotten or self._unconfirmed_removals)

    # --- partitions -----------------------------------------------------------------------------

    def add(self, follower: Follower) -> None:
        """Copies this partition from now on; also called when its epoch has changed."""
        key = (follower.topic_id, follower.index)
        state = self.states.get(key)
        if state is None or state.follower is not follower:
            if state is not None:
                self._mark_removed(state)
            state = self.states[key] = PartitionFetchState(key, follower)
        state.begin_epoch()
        self.due[key] = state

    def remove(self, follower: Follower) -> bool:
        """Removes a partition; returns whether it was copied. The next leader epoch fences late
        fetches."""
        key = (follower.topic_id, follower.index)
        self._unconfirmed_removals.pop(key, None)
        return self._remove(key, follower)

    def remove_and_confirm(self, follower: Follower) -> bool:
        """Removes a partition; `is_removal_confirmed` is true once its leader knows."""
        key = (follower.topic_id, follower.index)
        state = self.states.get(key)
        if state is not None and state.in_session:
            self._unconfirmed_removals[key] = self.number + 1
        return self._remove(key, follower)

    def is_removal_confirmed(self, key: Key) -> bool:
        """Whether the leader no longer counts any fetch of that partition, however late it arrives.

        The response to a later fetch confirms it: fetches of a session arrive in order, and a new
        session ends the one before.
        """
        state = self.states.get(key)
        return key not in self._unconfirmed_removals and (state is None or not state.in_session)

    def _remove(self, key: Key, follower: Follower) -> bool:
        state = self.states.get(key)
        if state is None or state.follower is not follower:
            return False
        self.drop(state)
        return True

    def drop(self, state: PartitionFetchState) -> None:
        """Stops copying a partition; ignored if another state has replaced this one."""
        if self.states.get(state.key) is state:
            del self.states[state.key]
            self._mark_removed(state)

    def _mark_removed(self, state: PartitionFetchState) -> None:
        state.removed = True
        self.due.pop(state.key, None)
        if state.in_session:
            self._forgotten.append(state.key)

    # --- the session ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Starts a new session, in which every partition is named again."""
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.began = self.number + 1
        self._forgotten.clear()
        for state in self.states.values():
            state.in_session = False
            self.due[state.key] = state

    def connection_lost(self) -> None:
        """Ends the session with its connection; the leader needs no list of removed partitions."""
        self._forgotten.clear()

    def next_fetch(self) -> None:
        """Starts the next fetch: partitions named from now on belong to it."""
        self.number += 1
        if self.epoch == INITIAL_EPOCH:
            self.began = self.number

    def forgotten(self) -> list[FetchForgottenTopic]:
        """The partitions that are no longer copied and were not added again."""
        return [
            FetchForgottenTopic(topic_id=topic_id, partitions=[index])
            for topic_id, index in self._forgotten
            if (topic_id, index) not in self.states
        ]

    def changes_sent(self) -> None:
        """Marks all changes as sent with the fetch."""
        self._forgotten.clear()
        self.epoch += 1

    def answered(self, number: int, session_id: int) -> None:
        """The leader has applied fetch `number` and all before it."""
        self.session_id = session_id
        if self._unconfirmed_removals:
            self._unconfirmed_removals = {
                key: last for key, last in self._unconfirmed_removals.items() if last > number
            }
