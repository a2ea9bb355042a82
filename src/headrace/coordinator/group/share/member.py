"""One member of a share group, as the coordinator last wrote it."""

from dataclasses import dataclass, field

from headrace.coordinator.group.modern.assignor_spec import Assignment
from headrace.coordinator.group.modern.modern_group import JOINING_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """Immutable: a request creates the next version, and the replay of its record stores it."""

    member_id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    """A member that missed the response with its new epoch may repeat its request with this one."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Assignment = field(default_factory=dict)

    def reconciled_to(self, epoch: int) -> bool:
        """A share group member has nothing to release: the assignment comes with the epoch."""
        return self.epoch == epoch
