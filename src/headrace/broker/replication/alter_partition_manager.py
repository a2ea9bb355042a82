"""Sends the ISR changes that leaders propose to the controller.

Guarantees: at most one change of a partition is pending. If an error leaves the outcome unknown,
the change stays pending and is sent again until the controller answers or the metadata shows the
outcome. The proposals of many partitions share one request.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.broker.runtime.timers import Timer, Timers
from headrace.client.errors import ClientError, code_of_number
from headrace.cluster.image import MetadataImage
from headrace.failure_log import FailureLog
from headrace.log_event import write_events
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from headrace.replication.isr_events import IsrChange, changes_of, isr_events
from headrace.replication.leader import IsrProposal, Leader
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    import asyncio

    from headrace.broker.replication.fetch_sessions_at_leader import FollowerFetchSessions
    from headrace.clock import Clock
    from headrace.cluster.settings import BrokerSettings
    from headrace.replication.sole_leader import SoleLeader

log = logging.getLogger(__package__)

RETRY_S: Final = 0.05
CHECKS_PER_LAG: Final = 2  # checks in each replica.lag.time.max.ms

AskController = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]

# The controller has certainly not applied the change: the ISR is unchanged, and the change may be
# proposed again.
_REFUSED: Final = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
# This leader is behind the metadata; the next metadata update ends the change.
_OVERTAKEN: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class AlterPartitionHost(Protocol):
    """The part of the broker that ISR changes use."""

    loop: "asyncio.AbstractEventLoop"
    clock: "Clock"
    timers: Timers
    settings: "BrokerSettings"
    node_id: int

    @property
    def broker_epoch(self) -> int: ...

    @property
    def metadata(self) -> MetadataView: ...

    @property
    def partitions(self) -> "Iterable[SoleLeader]":
        """The partitions that this broker leads."""
        ...


class AlterPartitionManager:
    """Tracks the followers of every partition that this broker leads."""

    def __init__(
        self, host: AlterPartitionHost, sessions: "FollowerFetchSessions", ask: AskController
    ) -> None:
        self._host = host
        self._sessions = sessions
        self._ask = ask
        self._max_lag_s = host.settings.integer("replica.lag.time.max.ms") / 1000
        self._joining: dict[Leader, set[int]] = {}
        self._again: Timer | None = None
        self._proposed: dict[Leader, IsrProposal] = {}
        # For the log: what each proposal changes, and what was committed since the last line.
        self._changes: dict[Leader, tuple[IsrChange, ...]] = {}
        self._committed: list[IsrChange] = []
        self._failures = FailureLog(log)
        self._known: tuple[MetadataImage, Mapping[int, int]] | None = None
        self._timer: Timer | None = None
        self._sending: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        self._timer = self._host.timers.call_later(self._max_lag_s / CHECKS_PER_LAG, self._check)

    def close(self) -> None:
        self._closed = True
        for timer in (self._timer, self._again):
            if timer is not None:
                timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    def followers_fetched(self, replica_id: int, leaders: Iterable[Leader]) -> None:
        """Proposes followers that have caught up immediately, not at the next check."""
        has_changed = False
        for leader in leaders:
            if replica_id not in leader.partition.isr and leader.has_caught_up(replica_id):
                self._joining.setdefault(leader, set()).add(replica_id)
                has_changed = True
        if has_changed:
            self._join()

    def _join(self) -> None:
        """Proposes the followers that wait to join, where no other change is pending.

        A follower that has caught up sends nothing more. It is remembered until it is in sync, has
        fallen behind, or the metadata has the broker epoch with which it fetched.
        """
        for leader, ids in list(self._joining.items()):
            waiting = {
                id_ for id_ in ids if id_ not in leader.partition.isr and leader.has_caught_up(id_)
            }
            if leader.closed or not waiting:
                del self._joining[leader]
                continue
            self._joining[leader] = waiting
            self._ask_for(leader, leader.propose_joining(waiting, self._live))
        if self._joining and self._again is None and not self._closed:
            self._again = self._host.timers.call_later(RETRY_S, self._join_again)

    def _join_again(self) -> None:
        self._again = None
        self._join()

    def can_spare(self, leader: Leader) -> bool:
        """Whether enough other replicas are in sync without this one."""
        return leader.can_spare_itself(self._live)

    def resign(self, leader: Leader) -> bool:
        """Resigns as leader because the local log has failed; returns whether that is news."""
        proposal = leader.propose_resigning(self._live)
        self._ask_for(leader, proposal)
        return proposal is not None

    def _check(self) -> None:
        for leader in self._host.partitions:
            if isinstance(leader, Leader):
                self._propose(leader)
                self._remember_silent(leader)
        self._join()
        self.start()

    def _remember_silent(self, leader: Leader) -> None:
        """Lets a follower rejoin that was removed from the ISR after it had caught up.

        The metadata that removed it may be older than its fetch. In an idle partition no later
        fetch names the partition again.
        """
        partition = leader.partition
        if len(partition.isr) == len(partition.replicas):
            return
        since = self._host.clock.monotonic() - self._max_lag_s
        key = (leader.topic_id, leader.index)
        for id_, progress in leader.progress.items():
            if (
                id_ not in partition.isr
                and leader.has_caught_up(id_)
                and self._sessions.has_fetched_since(id_, progress.broker_epoch, key, since)
            ):
                self._joining.setdefault(leader, set()).add(id_)

    def _propose(self, leader: Leader) -> None:
        try:
            proposal = leader.propose(self._live, self._host.clock.monotonic(), self._max_lag_s)
        except StorageError:
            return  # the log is offline and has reported it
        self._ask_for(leader, proposal)

    def _ask_for(self, leader: Leader, proposal: IsrProposal | None) -> None:
        if proposal is not None:
            self._note_superseded(leader)
            self._proposed[leader] = proposal
            self._changes[leader] = self._changes_of(leader, proposal)
            if self._sending is None and not self._closed:
                self._sending = self._host.loop.create_task(self._send())

    def _note_superseded(self, leader: Leader) -> None:
        """Notes a change that the metadata showed before the controller's answer arrived."""
        proposal, changes = self._proposed.get(leader), self._changes.pop(leader, ())
        if proposal is not None and proposal.ids == set(leader.partition.isr):
            self._committed += changes

    def _log_committed(self) -> None:
        committed, self._committed = self._committed, []
        write_events(log, isr_events(committed))

    def _changes_of(self, leader: Leader, proposal: IsrProposal) -> tuple[IsrChange, ...]:
        try:
            now = self._host.clock.monotonic()
            return changes_of(leader, proposal, self._host.node_id, now)
        except StorageError:
            return ()  # the log is offline and has reported it

    @property
    def _live(self) -> Mapping[int, int]:
        """The brokers that may be in sync, with their epochs."""
        image = self._host.metadata.image
        if self._known is None or self._known[0] is not image:
            live = {each.broker_id: each.epoch for each in image.live_brokers() if not each.leaving}
            self._known = (image, live)
        return self._known[1]

    # --- requests -------------------------------------------------------------------------------

    async def _send(self) -> None:
        """Sends requests until every change has been answered or superseded."""
        try:
            while not self._closed:
                self._drop_ended()
                if not self._proposed:
                    return
                is_answered = await self._ask_once(dict(self._proposed))
                self._log_committed()
                if not is_answered:
                    await self._host.timers.sleep(RETRY_S)
        finally:
            self._sending = None

    def _drop_ended(self) -> None:
        """Drops the changes that the metadata has already decided."""
        for leader, proposal in tuple(self._proposed.items()):
            if leader.pending is not proposal or leader.closed:
                self._note_superseded(leader)
                del self._proposed[leader]
        self._log_committed()

    async def _ask_once(self, proposed: dict[Leader, IsrProposal]) -> bool:
        """Whether the controller has answered; changes with an unknown outcome stay proposed."""
        try:
            answer = await self._ask(self._request(proposed))
        except ClientError as error:
            self._log_retry(proposed, str(error))
            return False
        except Exception:
            log.exception(
                "unexpected error while changing ISRs, retrying in %g s",
                RETRY_S,
                extra={"partitions": len(proposed)},
            )
            return False
        if answer.error_code:
            self._log_retry(proposed, code_of_number(answer.error_code).name)
            return False
        self._failures.succeeded("the controller answers ISR changes again")
        answers = {
            (topic.topic_id, each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        clear = True
        for leader, proposal in proposed.items():
            found = answers.get((leader.topic_id, leader.index))
            if found is None or not self._answered(leader, proposal, found):
                clear = False
        return clear

    def _log_retry(self, proposed: Mapping[Leader, IsrProposal], error: str) -> None:
        self._failures.failed(
            logging.WARNING,
            "the controller has not answered ISR changes, retrying in %g s",
            RETRY_S,
            reason=error,
            fields={"partitions": len(proposed)},
        )

    def _request(self, proposed: dict[Leader, IsrProposal]) -> AlterPartitionRequest:
        changes = (
            (
                leader.topic_id,
                AlterPartitionData(
                    partition_index=leader.index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=id_, broker_epoch=epoch)
                        for id_, epoch in proposal.isr
                    ],
                    partition_epoch=proposal.partition_epoch,
                ),
            )
            for leader, proposal in proposed.items()
        )
        return alter_partition_request(self._host.node_id, self._host.broker_epoch, changes)

    def _answered(self, leader: Leader, proposal: IsrProposal, answer: AlteredPartition) -> bool:
        """Whether this change needs no further request."""
        if leader.pending is not proposal:
            # The metadata update arrived first. The current proposal may be the next change.
            if self._proposed.get(leader) is proposal:
                self._note_superseded(leader)
                del self._proposed[leader]
            return True
        code = code_of_number(answer.error_code)
        if code in _REFUSED:
            leader.refused(proposal)
        elif code is ErrorCode.NONE:
            self._agreed(leader, proposal, answer)
        elif code not in _OVERTAKEN:
            return False
        changes = self._changes.pop(leader, ())
        if code is ErrorCode.NONE and set(answer.isr) == proposal.ids:
            self._committed += changes
        log.debug(
            "the controller answered an ISR change",
            extra={
                "topic": leader.topic,
                "partition": leader.index,
                "proposed_isr": sorted(proposal.ids),
                "answer": code.name,
            },
        )
        del self._proposed[leader]
        return True

    def _agreed(self, leader: Leader, proposal: IsrProposal, answer: AlteredPartition) -> None:
        if answer.leader_epoch != leader.epoch or answer.leader_id != self._host.node_id:
            return  # the metadata update will name the leader
        known = leader.partition
        if not known.eligible_leaders and set(known.isr) <= set(answer.isr):
            leader.partition_changed(
                known._replace(isr=tuple(answer.isr), partition_epoch=answer.partition_epoch),
                self._host.clock.monotonic(),
            )
        # Otherwise the eligible leaders have changed too, and only the metadata has the new set.
        if leader.pending is proposal and answer.partition_epoch == proposal.partition_epoch:
            leader.refused(proposal)  # nothing changed


def alter_partition_request(
    node_id: int, broker_epoch: int, changes: Iterable[tuple[bytes, AlterPartitionData]]
) -> AlterPartitionRequest:
    """The request for these changes, each with its topic id."""
    topics: dict[bytes, AlterPartitionTopic] = {}
    for topic_id, change in changes:
        topic = topics.setdefault(topic_id, AlterPartitionTopic(topic_id=topic_id, partitions=[]))
        topic.partitions.append(change)
    return AlterPartitionRequest(
        broker_id=node_id, broker_epoch=broker_epoch, topics=list(topics.values())
    )
