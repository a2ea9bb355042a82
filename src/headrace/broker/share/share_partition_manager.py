"""The share partitions and share sessions of one broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from headrace.broker.network.connection import Connection
from headrace.broker.share.delayed_share_fetch import DelayedShareFetch
from headrace.broker.share.share_fetch_reader import (
    MayRead,
    ShareFetchLimits,
    ShareRead,
    read_shares,
)
from headrace.broker.share.share_partition_runner import (
    AcknowledgeOutcome,
    SharePartitionHost,
    SharePartitionRunner,
)
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.errors import ErrorCode
from headrace.replication.sole_leader import SoleLeader
from headrace.share.in_flight import NOTHING_LOADED, InFlightRecords
from headrace.share.share_session import SessionKey, SharedPartition, ShareSessions


class SharePartitionManagerHost(SharePartitionHost, Protocol):
    """The part of the broker that share groups use."""

    stopping: bool


class SharePartitionManager:
    """Finds and reads share partitions, and releases the records of members that leave."""

    def __init__(self, host: SharePartitionManagerHost) -> None:
        self.sessions = ShareSessions()
        self._host = host
        self._live: dict[SharePartitionKey, SharePartitionRunner] = {}
        self._delayed: dict[DelayedShareFetch, None] = {}

    # --- partitions -----------------------------------------------------------------------------

    def find(
        self, group_id: str, partition: SharedPartition
    ) -> SharePartitionRunner | AcknowledgeOutcome:
        """The share partition, which may still be loading, or the error."""
        topic_id, index = partition
        key = SharePartitionKey(group_id, topic_id, index)
        live = self._live.get(key)
        if live is not None:
            return live
        topic = self._host.partitions.by_id.get(topic_id)
        if topic is None:
            return AcknowledgeOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
        if topic.internal:
            return AcknowledgeOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        leader = topic.find(index)
        if not isinstance(leader, SoleLeader):
            return AcknowledgeOutcome(leader)
        live = self._live[key] = SharePartitionRunner(
            self._host, key, leader, self._remove_partition
        )
        live.load()
        return live

    def find_loaded(
        self, group_id: str, partition: SharedPartition
    ) -> SharePartitionRunner | AcknowledgeOutcome:
        """Like `find`, but never creates the share partition: without readers it has no locks."""
        live = self._live.get(SharePartitionKey(group_id, *partition))
        if live is not None:
            return live
        topic = self._host.partitions.by_id.get(partition[0])
        if topic is None:
            return AcknowledgeOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
        leader = topic.find(partition[1])
        if not isinstance(leader, SoleLeader):
            return AcknowledgeOutcome(leader)
        return AcknowledgeOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def in_flight(self, key: SharePartitionKey, max_locks: int) -> InFlightRecords | None:
        """What the group's members hold; None if this broker does not lead the partition."""
        live = self._live.get(key)
        if live is not None:
            if live.window is None:
                return NOTHING_LOADED  # it loads: nothing is acquired yet
            return live.window.in_flight_records(live.now_ms(), max_locks)
        topic = self._host.partitions.by_id.get(key.topic_id)
        leader = None if topic is None else topic.find(key.partition)
        return NOTHING_LOADED if isinstance(leader, SoleLeader) else None

    def loaded(self) -> list[SharePartitionRunner]:
        """The share partitions whose state is loaded."""
        return [live for live in self._live.values() if live.window is not None]

    def _remove_partition(self, live: SharePartitionRunner) -> None:
        self._live.pop(live.key, None)

    # --- fetches --------------------------------------------------------------------------------

    def fetch(
        self, group_id: str, partitions: Iterable[SharedPartition], want: ShareFetchLimits
    ) -> ShareRead | asyncio.Future[ShareRead]:
        """Returns records to a member, immediately or once some are available."""
        lives: dict[SharedPartition, SharePartitionRunner] = {}
        failed: dict[SharedPartition, AcknowledgeOutcome] = {}
        for partition in partitions:
            denied = self.denied_outcome(partition, want.may_read)
            found = denied or self.find(group_id, partition)
            if isinstance(found, SharePartitionRunner):
                lives[partition] = found
            else:
                failed[partition] = found
        now = bool(failed) or not lives or want.max_wait_ms <= 0 or self._host.stopping
        read = read_shares(lives, want, force=now)
        if read is not None:
            read.failed.update(failed)
            return read
        delayed = DelayedShareFetch(self._host.loop, lives, want, self._remove_delayed_fetch)
        self._delayed[delayed] = None
        return delayed.future

    def denied_outcome(
        self, partition: SharedPartition, may_read: MayRead | None
    ) -> AcknowledgeOutcome | None:
        """The error for a topic that the member may not read; an unknown id gets another one."""
        topic = None if may_read is None else self._host.partitions.by_id.get(partition[0])
        if may_read is None or topic is None or may_read(topic.name):
            return None
        return AcknowledgeOutcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _remove_delayed_fetch(self, delayed: DelayedShareFetch) -> None:
        self._delayed.pop(delayed, None)

    # --- members --------------------------------------------------------------------------------

    def bind(self, connection: Connection, key: SessionKey) -> None:
        """Ends the session when the connection that opened it closes."""
        session = self.sessions.find(key)

        def lost() -> None:
            if session is not None and self.sessions.find(key) is session:
                self.close_session(key)

        connection.on_close(key, lost)

    def close_session(self, key: SessionKey) -> None:
        """Releases the records of a member that has left."""
        if self.sessions.close(key) is None:
            return
        for live in self._partitions_of_group(key.group_id):
            live.release(key.member_id)
        if not self.sessions.has_group(key.group_id):
            for live in self._partitions_of_group(key.group_id):
                if not live.is_busy:  # otherwise its dead letters would be written twice
                    live.end(AcknowledgeOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def unload_group(self, group_id: str) -> None:
        """Unloads the group's partitions: their stored state changes, so the next read reloads."""
        for live in self._partitions_of_group(group_id):
            live.end(AcknowledgeOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _partitions_of_group(self, group_id: str) -> list[SharePartitionRunner]:
        return [live for live in self._live.values() if live.key.group_id == group_id]

    # --- shutdown -------------------------------------------------------------------------------

    def stop(self) -> None:
        """Answers every waiting fetch."""
        for delayed in tuple(self._delayed):
            delayed.finish()
        for live in tuple(self._live.values()):
            live.end(AcknowledgeOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER))
