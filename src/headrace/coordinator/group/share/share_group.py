"""A share group: its members, and the partitions whose state it has initialized."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NoReturn

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import CancelTimer, SetTimer
from headrace.coordinator.group.group import CommitCheck, CommittingMember, GroupType
from headrace.coordinator.group.modern.modern_group import ModernGroup, ModernGroupState
from headrace.coordinator.group.share import group_records
from headrace.coordinator.group.share.member import ShareMember
from headrace.coordinator.group.share.state_topics import StateTopics
from headrace.coordinator.group.share.timers import session_timer
from headrace.protocol.errors import ErrorCode


class ShareGroup(ModernGroup[ShareMember]):
    """Implements `Group`. A share group commits no offsets: `__share_group_state` has its state."""

    records = group_records.RECORDS
    kind: Final = GroupType.SHARE
    protocol_type: Final = "share"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.state_topics = StateTopics()
        self.started_at_ms: dict[bytes, int] = {}
        """Soft state: when the state of a topic's partitions was last requested."""

    # Questions

    def state_name(self, now_ms: int) -> str:
        """No member has to release partitions, so a group with members is stable."""
        return ModernGroupState.STABLE if self.members else ModernGroupState.EMPTY

    def topics_after(self, before: ShareMember | None, after: ShareMember | None) -> set[str]:
        """The topics of the group once member `before` has become member `after`."""
        counts = Counter(self.topics)
        if before is not None and before.member_id in self.members:
            counts.subtract(before.topics)
        if after is not None:
            counts.update(after.topics)
        return {topic for topic, count in counts.items() if count > 0}

    def has_unassigned_state(self) -> bool:
        """Whether subscribed partitions have state and are not in the target yet."""
        if not self.members:
            return False
        assigned: dict[bytes, set[int]] = {}
        for assignment in self.target.values():
            for topic_id, partitions in assignment.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return any(
            self.subscribes_to(topic.name)
            and frozenset(assigned.get(topic_id, ())) != topic.partitions
            for topic_id, topic in self.state_topics.initialized.items()
        )

    # The protocol `Group`

    def check_commit(self, sender: CommittingMember) -> CommitCheck | None:
        self._refuse_offsets()

    def timers_after_commit(self, member_id: str) -> Sequence[SetTimer]:
        return ()

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        self._refuse_offsets()

    def check_offset_delete(self) -> None:
        self._refuse_offsets()

    def _refuse_offsets(self) -> NoReturn:
        raise CoordinatorError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group."
        )

    def check_delete(self) -> None:
        if self.members:
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def retention_start_ms(self, commit_ms: int) -> int | None:
        return None

    def tombstones(self) -> Sequence[RecordChange]:
        return group_records.group_tombstones(self.group_id, self.members)

    def timers(self) -> Sequence[CancelTimer]:
        return [CancelTimer(session_timer(self.group_id, id_)) for id_ in self.members]
