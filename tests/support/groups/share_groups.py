"""Drives a group shard with members of share groups (KIP-932)."""

from collections.abc import Iterable
from random import Random

from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.group_shard import GroupShard
from headrace.coordinator.group.share.share_group import ShareGroup
from headrace.coordinator.group.share.state_initialization import InitializeState
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from support.groups.consumer_groups import Cluster
from support.groups.shards import ShardDriver

GROUP = "g"


class ShareDriver(ShardDriver[GroupShard]):
    """Topics are t1 and t2 with two partitions each by default.

    The state of partitions is initialized at once, unless `hold` is set.
    """

    def __init__(self, config: GroupConfig | None = None, **topics: int) -> None:
        self.cluster = Cluster(**(topics or {"t1": 2, "t2": 2}))
        self.config = config or GroupConfig(share_assignment_interval_ms=0)
        self.hold = False
        super().__init__(
            lambda: GroupShard(0, lambda: self.cluster.image, lambda _: self.config, Random(1))
        )

    @property
    def group(self) -> ShareGroup:
        return self.shard.share.group(GROUP)

    def beat(
        self, member_id: str, epoch: int, topics: Iterable[str] | None = None, group: str = GROUP
    ) -> ShareGroupHeartbeatResponse:
        """Sends a heartbeat; raises the coordinator's error."""
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
        )
        context = RequestContext(1, "app", "/10.0.0.1")
        answer = self.run(lambda shard, now: shard.share.heartbeat(context, request, now))
        if not self.hold:
            self.start_state()
        return answer

    def start_state(self, *, fails: bool = False) -> list[InitializeState]:
        """Handles the effects of heartbeats, like the broker."""
        wanted = [effect for effect in self.effects if isinstance(effect, InitializeState)]
        self.effects.clear()
        for one in wanted:
            if fails:
                self.run(lambda shard, _, one=one: shard.share.not_started(GROUP, one.topics))
            else:
                self.run(lambda shard, _, one=one: shard.share.started(GROUP, one.topics))
        return wanted

    def join(self, member_id: str, *topics: str) -> int:
        """Joins and sends heartbeats until nothing changes; returns the member's epoch."""
        epoch = self.beat(member_id, 0, topics or ("t1",)).member_epoch
        return self.settle(member_id, epoch)

    def settle(self, member_id: str, epoch: int) -> int:
        for _ in range(5):
            epoch, before = self.beat(member_id, epoch).member_epoch, epoch
            if epoch == before:
                return epoch
        raise AssertionError("the epoch does not stop growing")

    def assigned(self, member_id: str) -> dict[str, list[int]]:
        """The member's partitions by topic name."""
        topics = self.cluster.image.topics_by_id
        return {
            topics[topic_id].name: sorted(partitions)
            for topic_id, partitions in self.group.members[member_id].assigned.items()
        }

    def topics_changed(self, *names: str) -> None:
        self.start(lambda shard, now: shard.metadata_changed(names, now))
