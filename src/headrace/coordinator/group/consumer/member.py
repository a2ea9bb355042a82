"""One member of a consumer group, as the coordinator last wrote it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.coordinator.group.classic.member import MemberProtocol
from headrace.coordinator.group.modern.modern_group import JOINING_EPOCH

STATIC_LEAVING_EPOCH: Final = -2
"""A static member leaves temporarily: its assignment is kept until its session ends."""

Owned = Mapping[bytes, Mapping[int, int]]
"""By topic id and partition, the epoch in which the partition was assigned (KIP-1251)."""

NONE_OWNED: Final[Owned] = {}


class MemberState(IntEnum):
    """The reconciliation state of a member. The numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member must release partitions and report this before it gets its next epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member has the epoch of the target; other members still have some of its partitions."""
    UNKNOWN = 127
    """A state that a newer release wrote and this release does not know."""


class ClassicMembership(NamedTuple):
    """The JoinGroup data of a member that still uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]


class ResolvedPattern(NamedTuple):
    """The topics that a pattern matched at one version of the metadata."""

    topics: frozenset[str]
    version: int
    resolved_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """Immutable: a request creates the next version, and the replay of its record stores it."""

    member_id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    """A member that missed the response with its new epoch may repeat its request with this one."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    """The regular expression that the member subscribes to; empty if there is none."""
    assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    """Partitions that the member must release; it owns them until it reports their release."""
    classic: ClassicMembership | None = None

    def reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def epoch_of(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which a partition that it has, or must release, was assigned."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
