"""The state of each replica at its last check, so that a check evaluates only changes."""

from dataclasses import dataclass, field

from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import Partition
from headrace.replication.follower_progress import UNKNOWN, FollowerProgress
from headrace.replication.leader import Leader
from headrace.replication.sole_leader import SoleLeader
from headrace.testing.simulation.checks.committed_batches import CommittedBatches


@dataclass(slots=True)
class CheckedLeader:
    """The state of a leader at the last check."""

    epoch: int
    watermark: int
    enough: bool
    partition_epoch: int
    verified: bool = False
    replica_changes: int = -1  # number of changes on other brokers
    partition: Partition | None = None
    counts: list[tuple[FollowerProgress, int, int]] = field(default_factory=list)

    def is_unchanged(self, leader: SoleLeader, replica_changes: int) -> bool:
        """Whether no rule can have another result than at the last check."""
        if (
            self.replica_changes != replica_changes
            or not self.verified
            or self.watermark != leader.high_watermark
            or self.epoch != leader.epoch
        ):
            return False
        if isinstance(leader, Leader):
            if leader.partition is not self.partition:
                return False
            for progress, log_end, broker_epoch in self.counts:
                if progress.log_end != log_end or progress.broker_epoch != broker_epoch:
                    return False
        return True

    def fetched_in_another_incarnation(self, follower: FollowerProgress) -> bool:
        """Whether an earlier incarnation of the follower had sent the last fetch at that time.

        Since then, in one loop iteration, the leader may have counted more records for it than the
        current incarnation has.
        """
        for progress, _, broker_epoch in self.counts:
            if progress is follower:
                return broker_epoch not in (UNKNOWN, follower.broker_epoch)
        return False

    def store(self, leader: SoleLeader, replica_changes: int) -> None:
        """Stores the state of this leader after a check."""
        self.replica_changes = replica_changes
        if isinstance(leader, Leader):
            self.partition = leader.partition
            self.counts = [
                (each, each.log_end, each.broker_epoch) for each in leader.progress.values()
            ]


@dataclass(slots=True)
class CheckedFollower:
    """The state of a follower at the last check."""

    epoch: int
    log_end: int
    image: MetadataImage
    committed: CommittedBatches | None = None
    batches: int = 0  # committed at that time
    least_end: int = 0  # the log end that it must have
