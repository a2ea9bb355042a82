"""The effects of one member's change: the group epoch, the target, and the member's next step."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.coordinator.group.consumer import group_records
from headrace.coordinator.group.consumer.assignors import ASSIGNORS
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.member import ConsumerMember, MemberState
from headrace.coordinator.group.consumer.reconciliation import Reconciliation, Reported
from headrace.coordinator.group.consumer.regex_subscriptions import (
    PatternChange,
    RegexSubscriptions,
)
from headrace.coordinator.group.consumer.timers import TimerKind, timer
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.modern.assignor_spec import (
    NOTHING,
    Assignment,
    Assignor,
    MemberSpec,
)
from headrace.coordinator.group.modern.subscribed_topics import (
    topic_ids,
)
from headrace.coordinator.group.modern.target_assignment import advance_group_epoch, assign_targets
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.security.session import UNKNOWN_CLIENT, Session


class TargetAssignment(NamedTuple):
    """The target assignment of one member, and its epoch."""

    epoch: int
    assignment: Assignment


class MemberUpdate(NamedTuple):
    """A member before and after its request. For a new member, `before` has no subscription. A
    static member that returned has a new id; the group knows its instance id."""

    group: ConsumerGroup
    before: ConsumerMember
    after: ConsumerMember
    session: Session = UNKNOWN_CLIENT
    """The sender of the request."""


class AssignmentUpdater:
    """Every step adds its records, timers and effects to a result, in Kafka's order."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        config: Callable[[str], GroupConfig],
        patterns: RegexSubscriptions,
    ) -> None:
        self._image = image
        self._config = config
        self._patterns = patterns

    def subscribe(
        self, update: MemberUpdate, result: ResultBuilder, now_ms: int
    ) -> tuple[int, bool]:
        """The group epoch after the member's request, and whether its subscription changed."""
        group, before, after, _ = update
        names_changed = after.topics != before.topics
        if after != before:
            result.changes.append(group_records.member_record(group.group_id, after))
        pattern = self._patterns.change(group, before, after, result)
        self._refresh_patterns(update, result, now_ms)
        bump = names_changed or pattern is PatternChange.RESOLVED
        epoch = group.epoch
        if bump or group.must_refresh(now_ms):
            topics = group.topics_after([before], [after])
            epoch = advance_group_epoch(group, topics, self._image(), result, now_ms, changed=bump)
            if group.has_partition_metadata:
                result.changes.append(group_records.partition_metadata_tombstone(group.group_id))
        return epoch, names_changed or pattern is not PatternChange.NONE

    def _refresh_patterns(self, update: MemberUpdate, result: ResultBuilder, now_ms: int) -> None:
        group, before, after, _ = update
        if group.patterns or after.pattern:
            image = self._image()
            self._patterns.refresh(
                group,
                before,
                after,
                result,
                now_ms,
                update.session,
                topics=image.topics,
                version=image.version,
                interval_ms=self._config(group.group_id).consumer_regex_refresh_interval_ms,
            )

    def retarget(
        self, update: MemberUpdate, epoch: int, result: ResultBuilder, now_ms: int
    ) -> TargetAssignment:
        """The member's target. It is computed again if the group epoch has changed, at most once
        per assignment interval (KIP-1263)."""
        group, _, after, _ = update
        interval_ms = self._config(group.group_id).consumer_assignment_interval_ms
        if not group.is_target_due(epoch, interval_ms, now_ms):
            return self.last_target(group, after)
        specs = dict(self._specs(update))
        targets = assign_targets(group, specs, self.assignor(update), self._image(), result)
        result.changes.append(group.records.target_epoch(group.group_id, epoch, now_ms))
        return TargetAssignment(epoch, targets.get(after.member_id, NOTHING))

    def last_target(self, group: ConsumerGroup, member: ConsumerMember) -> TargetAssignment:
        """The member's part of the current target; a static member keeps the target of its last
        process."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = group.instances.get(member.instance_id, "")
        return TargetAssignment(group.assignment_epoch, group.target_of(member_id))

    def _specs(self, update: MemberUpdate) -> Iterator[tuple[str, MemberSpec]]:
        """The members after the request. Equal subscriptions share one set of topics."""
        group, _, after, _ = update
        image = self._image()
        cache: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}

        def spec(member: ConsumerMember, target: Assignment) -> MemberSpec:
            key = (member.topics, member.pattern)
            topics = cache.get(key)
            if topics is None:
                topics = cache[key] = topic_ids(group.subscribed_names(member), image)
            return MemberSpec(topics, target, member.instance_id)

        replaced = group.instances.get(after.instance_id) if after.instance_id else None
        for member_id, member in group.members.items():
            if member_id not in (after.member_id, replaced):
                yield member_id, spec(member, group.target_of(member_id))
        yield after.member_id, spec(after, group.target_of(replaced or after.member_id))

    def assignor(self, update: MemberUpdate) -> Assignor:
        """The assignor with the most votes, else the first that the broker offers."""
        group, before, after, _ = update
        votes = group.assignors.copy()
        if before.assignor is not None:
            votes[before.assignor] -= 1
        if after.assignor is not None:
            votes[after.assignor] += 1
        return ASSIGNORS[preferred_assignor(votes, self._config(group.group_id))]

    def reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: TargetAssignment,
        reported: Reported | None,
        result: ResultBuilder,
        *,
        subscription_changed: bool,
    ) -> ConsumerMember:
        """The member's next step. While it releases partitions, its rebalance timeout runs."""
        if not subscription_changed and member.reconciled_to(target.epoch):
            return member
        after = Reconciliation(
            target.epoch,
            target.assignment,
            topic_ids(group.subscribed_names(member), self._image()),
            group.is_free,
            reported,
            subscription_changed,
        ).step(member)
        if after != member:
            result.changes.append(group_records.current_record(group.group_id, after))
            if after.classic is None:
                self._time_revocation(group, after, result)
        return after

    def _time_revocation(
        self, group: ConsumerGroup, member: ConsumerMember, result: ResultBuilder
    ) -> None:
        key = timer(TimerKind.REBALANCE, group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            group.revoke_epochs[member.member_id] = member.epoch
            result.set_timer(key, member.rebalance_timeout_ms)
        else:
            group.revoke_epochs.pop(member.member_id, None)
            result.cancel_timer(key)


def preferred_assignor(votes: Mapping[str, int], config: GroupConfig) -> str:
    """The offered assignor with the most votes; among equals, the first."""
    offered = [name for name in config.consumer_assignors if name in ASSIGNORS]
    return max(offered or ASSIGNORS, key=lambda name: votes.get(name, 0))
