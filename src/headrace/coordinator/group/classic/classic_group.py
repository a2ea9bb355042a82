"""A classic group: its members, its generation, and its state in a rebalance (`classic_state.py`).

The log has the record of `group_record.py`: the generation, its protocol and leader, the members
with their subscriptions and assignments. Everything else is soft state: the requests that wait for
a join or a sync, the member ids that were assigned and not used yet, and a rebalance in progress.
After a move of the coordinator the group is Stable (or Empty) in the generation that was last
written, and its members learn of a rebalance with their next heartbeat, as in Kafka.

This class holds the data; `rebalance.py` decides when the group changes its state.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import CancelTimer, Deferred, SetTimer
from headrace.coordinator.group.classic.classic_state import (
    ClassicState,
    can_become,
    check_transition,
)
from headrace.coordinator.group.classic.member import ClassicMember, MemberProtocol, session_timer
from headrace.coordinator.group.classic.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    subscribed_topics,
)
from headrace.coordinator.group.group import CommitCheck, CommittingMember, GroupType
from headrace.coordinator.group.records.classic import GroupMetadataKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupResponse

# Read for every commit, and an attribute of an enum class takes ten times as long as a global.
_COMPLETING: Final = ClassicState.COMPLETING_REBALANCE
_EMPTY: Final = ClassicState.EMPTY


class ClassicGroup:
    """Implements `Group`."""

    kind = GroupType.CLASSIC

    def __init__(
        self, group_id: str, now_ms: int, state: ClassicState = ClassicState.EMPTY
    ) -> None:
        self.group_id = group_id
        self._state = state
        self.state_since_ms = now_ms
        """-1 if the record is from an old release, which does not have it."""
        self.generation = 0
        self.protocol_type = ""
        """Empty until the first member joins: the group only has offsets."""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.instances: dict[str, str] = {}
        """The member id of each static member, by its instance id."""
        self.pending_joins: set[str] = set()
        """Member ids that were assigned and have not joined yet (KIP-394)."""
        self.pending_syncs: set[str] = set()
        """Members of the generation that have not fetched their assignment yet."""
        self.initial_delay: InitialDelay | None = None
        """Set while an Empty group waits for its first members."""
        self.topics: frozenset[str] | None = frozenset()
        """The topics that its consumers subscribe to; None if a subscription is unreadable."""
        self._joining = 0
        self._protocols: Counter[str] = Counter()

    # Questions

    @property
    def state(self) -> ClassicState:
        return self._state

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can start: none is in its join phase, and the group is not dead."""
        return can_become(self._state, ClassicState.PREPARING_REBALANCE)

    @property
    def is_consumer_group(self) -> bool:
        """Whether its members are consumers and not, for example, Connect workers."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return self._state is _EMPTY

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def phase_timer(self) -> Hashable:
        """The key of the one timer that ends the join phase or the sync phase."""
        return phase_timer(self.group_id)

    @property
    def joining(self) -> int:
        """The number of members that wait in JoinGroup."""
        return self._joining

    @property
    def everyone_joined(self) -> bool:
        return self._joining == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member. Raises if the member id is unknown, or if a newer process with the same
        instance id has replaced the member."""
        if instance_id is not None:
            current = self.instances.get(instance_id)
            if current is None:
                raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise CoordinatorError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def accepts(self, protocol_type: str, protocols: Sequence[MemberProtocol]) -> bool:
        """Whether a member with these protocols could agree with all the others."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._protocols[one.name] == len(self.members) for one in protocols
        )

    # Members

    def add(self, member: ClassicMember) -> None:
        """Adds a member; the caller has checked `accepts`, and its instance id must be free."""
        assert member.instance_id is None or member.instance_id not in self.instances
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self._add_to_tables(member)
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Removes a member or a pending one, whose waiting requests must have been answered."""
        member = self.members.get(member_id)
        if member is not None:
            self._remove_from_tables(member)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """Gives a returning static member its new id; a leader remains the leader."""
        self._remove_from_tables(old)
        self._add_to_tables(new)
        self.pending_syncs.discard(old.member_id)
        if self.leader == old.member_id:
            self.leader = new.member_id

    def update(self, member: ClassicMember, protocols: tuple[MemberProtocol, ...]) -> None:
        """Replaces the protocols that the member knows."""
        self._forget_protocols(member)
        member.protocols = protocols
        self._protocols.update(_names(member))

    def _add_to_tables(self, member: ClassicMember) -> None:
        self.members[member.member_id] = member
        self._protocols.update(_names(member))
        self._joining += member.joining is not None
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id

    def _remove_from_tables(self, member: ClassicMember) -> None:
        del self.members[member.member_id]
        self._forget_protocols(member)
        self._joining -= member.joining is not None
        if member.instance_id is not None:
            del self.instances[member.instance_id]

    def _forget_protocols(self, member: ClassicMember) -> None:
        for name in _names(member):
            self._protocols[name] -= 1
            if not self._protocols[name]:
                del self._protocols[name]

    def set_joining(
        self, member: ClassicMember, deferred: Deferred[JoinGroupResponse] | None
    ) -> Deferred[JoinGroupResponse] | None:
        """Sets or clears the JoinGroup that waits for the end of the join phase; returns the one
        that waited until now."""
        previous, member.joining = member.joining, deferred
        self._joining += (deferred is not None) - (previous is not None)
        return previous

    # Generations

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        """The only way to change the state; raises `IllegalGroupTransition`."""
        check_transition(self.group_id, self._state, state)
        self._state = state
        self.state_since_ms = now_ms

    def mark_dead(self) -> None:
        """Called when the group is no longer in the shard's table."""
        self.transition_to(ClassicState.DEAD, self.state_since_ms)

    def elect_leader(self) -> bool:
        """Elects a leader among the members that joined; False if none did."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is not None:
            return True
        for member in self.members.values():
            if member.joining is not None:
                self.leader = member.member_id
                return True
        return False

    def begin_generation(self, now_ms: int) -> None:
        """Ends the join phase: the current members are the next generation."""
        self.generation += 1
        self.pending_syncs.clear()
        self.initial_delay = None
        self.protocol = self.select_protocol() if self.members else None
        self.topics = self.compute_topics()
        self.transition_to(
            ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms
        )

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members know."""
        known = {name for name, count in self._protocols.items() if count == len(self.members)}
        votes = Counter(member.vote(known) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def compute_topics(self) -> frozenset[str] | None:
        """The topics that the members subscribe to, for `topics`."""
        if not self.is_consumer_group:
            return None
        protocol = self.protocol
        if not self.members:
            return frozenset()
        if protocol is None:
            return None
        return subscribed_topics(member.metadata(protocol) for member in self.members.values())

    # The protocol `Group`

    def state_name(self, now_ms: int) -> str:
        return self._state.value

    def check_commit(self, sender: CommittingMember) -> CommitCheck | None:
        generation, transactional = sender.generation, sender.transactional
        if generation < 0 and self.is_empty:
            # A consumer without group management, or a tool that resets offsets.
            return None
        member_id, instance_id = sender.member_id, sender.instance_id
        if generation >= 0 or member_id or instance_id is not None:
            if instance_id is not None or member_id not in self.members:
                self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and not self.is_empty:
            # Old transactional producers send no member id; every other client must.
            raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self._state is _COMPLETING:
            raise CoordinatorError(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def timers_after_commit(self, member_id: str) -> Sequence[SetTimer]:
        member = self.members.get(member_id)
        if member is None:
            return ()
        return member.session

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Does nothing: every client may read the offsets."""

    def check_offset_delete(self) -> None:
        if not self.is_empty and not self.is_consumer_group:
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        if not self.is_empty:
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP)

    def subscribes_to(self, topic: str) -> bool:
        """A group of consumers with unreadable subscriptions counts as reading every topic."""
        return self.is_consumer_group if self.topics is None else topic in self.topics

    def retention_start_ms(self, commit_ms: int) -> int | None:
        if not self.protocol_type:
            return commit_ms
        if self.is_empty:
            return self.state_since_ms if self.state_since_ms >= 0 else commit_ms
        if self.is_consumer_group and self.topics is not None:
            return commit_ms if self._state is ClassicState.STABLE else None
        return None

    def tombstones(self) -> Sequence[RecordChange]:
        return (RecordChange(GroupMetadataKey(group_id=self.group_id), None),)

    def timers(self) -> Sequence[CancelTimer]:
        sessions = [member.session_timer for member in self.members.values()]
        sessions += [session_timer(self.group_id, one) for one in self.pending_joins]
        return [CancelTimer(key) for key in (self.phase_timer, *sessions)]


class InitialDelay:
    """The time for which a new group waits for more members before its first generation.

    Every new member extends it, but never past the rebalance timeout.
    """

    __slots__ = ("delay_ms", "joined", "remaining_ms")

    def __init__(self, delay_ms: int, rebalance_timeout_ms: int) -> None:
        self.delay_ms = delay_ms
        self.remaining_ms = max(rebalance_timeout_ms - delay_ms, 0)
        self.joined = False
        """Whether a member has joined since the delay began."""

    def extend(self, delay_ms: int) -> int | None:
        """The next delay, or None if the wait is over."""
        if not self.joined or self.remaining_ms == 0:
            return None
        self.joined = False
        elapsed, self.delay_ms = self.delay_ms, min(delay_ms, self.remaining_ms)
        self.remaining_ms = max(self.remaining_ms - elapsed, 0)
        return self.delay_ms


def phase_timer(group_id: str) -> Hashable:
    return ("classic", "phase", group_id)


def _names(member: ClassicMember) -> set[str]:
    return {one.name for one in member.protocols}
