"""A consumer group: the subscriptions, targets and assignments of its members."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from headrace.cluster.image import MetadataImage
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import CancelTimer, SetTimer
from headrace.coordinator.group.consumer import group_records, timers
from headrace.coordinator.group.consumer.member import ConsumerMember, Owned, ResolvedPattern
from headrace.coordinator.group.group import CommitCheck, CommittingMember, GroupType
from headrace.coordinator.group.modern.modern_group import ModernGroup
from headrace.protocol.errors import ErrorCode
from headrace.protocol.types import ZERO_UUID

PROTOCOL_TYPE: Final = "consumer"
_FIRST_COMMIT_VERSION_WITH_EPOCHS: Final = 9
_NO_GENERATION: Final = -1


class ConsumerGroup(ModernGroup[ConsumerMember]):
    """Implements `Group`."""

    records = group_records.RECORDS
    kind: Final = GroupType.CONSUMER
    protocol_type: Final = PROTOCOL_TYPE

    def __init__(self, group_id: str, image: Callable[[], MetadataImage]) -> None:
        super().__init__(group_id)
        self._image = image
        self.instances: dict[str, str] = {}
        """The member id of each static member, by its instance id."""
        self.assignors: Counter[str] = Counter()
        """The number of members that ask for each assignor."""
        self.patterns: Counter[str] = Counter()
        """The number of members that subscribe to each pattern."""
        self.resolved: dict[str, ResolvedPattern] = {}
        self.classic_members = 0
        self.classic_protocols: Counter[str] = Counter()
        """The number of classic members that support each protocol."""
        self.has_partition_metadata = False
        """Whether a record of Kafka before 4.1 is left, which must be deleted."""
        self.revoke_epochs: dict[str, int] = {}
        """Soft state: the epoch of each member whose rebalance timer runs."""
        self.joins_awaited: set[str] = set()
        """Soft state: classic members that must rejoin, and whose timer runs."""
        self._owners: dict[bytes, dict[int, str]] = {}

    # Questions

    def state_name(self, now_ms: int) -> str:
        return str(self.state)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None:
            return None
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Whether no member owns the partition or must still release it."""
        return partition not in self._owners.get(topic_id, {})

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still has a partition of this member's target."""
        return any(
            partition not in member.assigned.get(topic_id, {})
            and not self.is_free(topic_id, partition)
            for topic_id, partitions in self.target_of(member.member_id).items()
            for partition in partitions
        )

    def subscribed_names(
        self, member: ConsumerMember, patterns: Mapping[str, ResolvedPattern] | None = None
    ) -> frozenset[str]:
        """The topics that the member subscribes to, by name and by pattern."""
        resolved = (self.resolved if patterns is None else patterns).get(member.pattern)
        return member.topics if resolved is None else member.topics | resolved.topics

    def topics_after(
        self, before: Collection[ConsumerMember], after: Collection[ConsumerMember]
    ) -> set[str]:
        """The topics of the group once members `before` have become members `after`."""
        counts = Counter(self.topics)
        patterns = Counter(self.patterns)
        for member in before:
            counts.subtract(member.topics)
            patterns[member.pattern] -= 1
        for member in after:
            counts.update(member.topics)
            patterns[member.pattern] += 1
        for pattern, resolved in self.resolved.items():
            if patterns[pattern] <= 0:
                counts.subtract(resolved.topics)
        return {topic for topic, count in counts.items() if count > 0}

    # Changes, by replay

    def update_member(self, member: ConsumerMember) -> ConsumerMember | None:
        before = super().update_member(member)
        if before is not None:
            self._forget(before)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if member.assignor is not None:
            self.assignors[member.assignor] += 1
        if member.pattern:
            self.patterns[member.pattern] += 1
        if member.classic is not None:
            self.classic_members += 1
            self.classic_protocols.update({one.name for one in member.classic.protocols})
        for owned in (member.assigned, member.revoking):
            self._own(member.member_id, owned)
        return before

    def remove_member(self, member_id: str) -> ConsumerMember | None:
        before = super().remove_member(member_id)
        if before is not None:
            self._forget(before)
            if before.instance_id is not None and (
                self.instances.get(before.instance_id) == member_id
            ):
                del self.instances[before.instance_id]
        self.revoke_epochs.pop(member_id, None)
        self.joins_awaited.discard(member_id)
        return before

    def _forget(self, member: ConsumerMember) -> None:
        if member.assignor is not None:
            _decrement(self.assignors, member.assignor)
        if member.pattern:
            _decrement(self.patterns, member.pattern)
        if member.classic is not None:
            self.classic_members -= 1
            for name in {one.name for one in member.classic.protocols}:
                _decrement(self.classic_protocols, name)
        for owned in (member.assigned, member.revoking):
            self._disown(member.member_id, owned)

    def _own(self, member_id: str, owned: Owned) -> None:
        for topic_id, partitions in owned.items():
            self._owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

    def _disown(self, member_id: str, owned: Owned) -> None:
        for topic_id, partitions in owned.items():
            owners = self._owners.get(topic_id)
            if owners is None:
                continue
            for partition in partitions:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self._owners[topic_id]

    def resolve(self, pattern: str, resolved: ResolvedPattern | None) -> None:
        """Sets the topics that a pattern matches, or removes the pattern."""
        before = self.resolved.pop(pattern, None)
        if before is not None:
            self._remove_topics(before.topics)
        if resolved is not None:
            self.resolved[pattern] = resolved
            self._add_topics(resolved.topics)

    # The protocol `Group`

    def check_commit(self, sender: CommittingMember) -> CommitCheck | None:
        generation, transactional = sender.generation, sender.transactional
        if generation < 0 and not self.members:
            return None
        anonymous = not sender.member_id and sender.instance_id is None
        if transactional and generation == _NO_GENERATION and anonymous:
            # A producer before KIP-447, which does not send its group's generation.
            return None
        member = self.member(sender.member_id)
        if (
            not transactional
            and member.classic is None
            and sender.version < _FIRST_COMMIT_VERSION_WITH_EPOCHS
        ):
            raise CoordinatorError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer "
                "group protocol",
            )
        if generation == member.epoch:
            return None
        if generation > member.epoch:
            raise _stale(member, f"{generation} is newer than current member epoch {member.epoch}.")
        return self._epoch_check(member, generation)

    def _epoch_check(self, member: ConsumerMember, epoch: int) -> CommitCheck:
        """A member that does not know its new epoch yet may still commit partitions that it has had
        since the epoch that it sends (KIP-1251): no other member can have committed there in
        between."""

        def check(topic: str, topic_id: bytes, partition: int) -> None:
            if topic_id == ZERO_UUID:
                found = self._image().topics.get(topic)
                topic_id = ZERO_UUID if found is None else found.topic_id
            since = member.epoch_of(topic_id, partition)
            if since is None:
                raise CoordinatorError(
                    _stale_code(member),
                    f"Partition {topic}-{partition} is not assigned or pending revocation for "
                    "member.",
                )
            if epoch < since:
                raise _stale(
                    member,
                    f"{epoch} is older than assignment epoch {since} for partition "
                    f"{topic}-{partition}.",
                )

        return check

    def timers_after_commit(self, member_id: str) -> Sequence[SetTimer]:
        """No timers: only heartbeats keep a member of a consumer group alive."""
        return ()

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            kind = "member epoch" if member.classic is None else "generation id"
            raise CoordinatorError(
                _stale_code(member),
                f"The received {kind} {epoch} does not match the expected member epoch "
                f"{member.epoch}.",
            )

    def check_offset_delete(self) -> None:
        """Always allowed: offsets of topics that the group does not subscribe to are not needed."""

    def check_delete(self) -> None:
        if self.members:
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP)

    def retention_start_ms(self, commit_ms: int) -> int | None:
        return commit_ms

    def tombstones(self) -> Sequence[RecordChange]:
        return group_records.group_tombstones(self.group_id, self.members, self.resolved)

    def timers(self) -> Sequence[CancelTimer]:
        return [
            cancel
            for member_id in self.members
            for cancel in timers.cancel_all(self.group_id, member_id)
        ]


def _decrement(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if counts[name] <= 0:
        del counts[name]


def _stale_code(member: ConsumerMember) -> ErrorCode:
    classic = member.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if classic else ErrorCode.STALE_MEMBER_EPOCH


def _stale(member: ConsumerMember, what: str) -> CoordinatorError:
    kind = "member epoch" if member.classic is None else "generation id"
    return CoordinatorError(_stale_code(member), f"Received {kind} {what}")
