"""Drives a group shard with members of consumer groups (KIP-848)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from headrace.cluster.image import MetadataImage, Partition
from headrace.cluster.metadata_records import (
    MetadataRecord,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.member import ConsumerMember
from headrace.coordinator.group.consumer.regex_subscriptions import PatternMatching, ResolvePatterns
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from support.groups.classic_groups import GROUP, ClassicDriver

SESSION_MS = 45_000
REBALANCE_MS = 60_000

Owned = Mapping[str, Collection[int]] | Mapping[bytes, Collection[int]]
"""By topic name, or by topic id: a client may own partitions of a deleted topic."""


class Cluster:
    """Topics that a test can create, extend and delete."""

    def __init__(self, **topics: int) -> None:
        self.image = MetadataImage()
        self._next_id = 1
        for name, partitions in topics.items():
            self.create(name, partitions)

    def create(self, name: str, partitions: int) -> None:
        topic_id = self._next_id.to_bytes(16, "big")
        self._next_id += 1
        self._apply(TopicCreated(name, topic_id, _partitions(partitions)))

    def grow(self, name: str, more: int) -> None:
        self._apply(PartitionsAdded(self.image.topics[name].topic_id, _partitions(more)))

    def delete(self, name: str) -> None:
        self._apply(TopicDeleted(self.image.topics[name].topic_id))

    def _apply(self, record: MetadataRecord) -> None:
        self.image = self.image.apply([record])


def _partitions(count: int) -> tuple[Partition, ...]:
    return (Partition((1,), (1,), 1),) * count


class ConsumerDriver(ClassicDriver):
    """Sends heartbeats, with defaults for the fields that a test does not set.
    Topics are t1 to t3 with three partitions each by default. A target assignment is computed as
    soon as possible, and not once a second.
    """

    def __init__(self, config: GroupConfig | None = None, **topics: int) -> None:
        self.cluster = Cluster(**(topics or {"t1": 3, "t2": 3, "t3": 3}))
        super().__init__(
            config
            or GroupConfig(consumer_assignment_interval_ms=0, classic_initial_rebalance_delay_ms=0),
            image=lambda: self.cluster.image,
        )

    @property
    def consumers(self) -> ConsumerGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def member(self, member_id: str) -> ConsumerMember:
        return self.consumers.members[member_id]

    # Heartbeats

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        topics: Iterable[str] | None = None,
        pattern: str | None = None,
        owned: Owned | None = None,
        rebalance_ms: int = -1,
        instance_id: str | None = None,
        assignor: str | None = None,
        version: int = 1,
        client_id: str = "app",
    ) -> ConsumerGroupHeartbeatResponse:
        """Sends a heartbeat; raises the coordinator's error."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance_id,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=pattern,
            server_assignor=assignor,
            topic_partitions=None if owned is None else self._listed(owned),
        )
        context = RequestContext(version, client_id, "/10.0.0.1")
        return self.run(lambda shard, now_ms: shard.consumer.heartbeat(context, request, now_ms))

    def _listed(self, owned: Owned) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=(
                    self.cluster.image.topics[topic].topic_id if isinstance(topic, str) else topic
                ),
                partitions=sorted(partitions),
            )
            for topic, partitions in owned.items()
        ]

    def enter_consumer(
        self, member_id: str, *topics: str, pattern: str | None = None, **options: object
    ) -> ConsumerGroupHeartbeatResponse:
        """Adds a member with the given topics or pattern; the default is t1."""
        names = topics or (() if pattern is not None else ("t1",))
        return self.beat(
            member_id,
            0,
            topics=names,
            pattern=pattern,
            owned={},
            rebalance_ms=REBALANCE_MS,
            **options,  # type: ignore[arg-type]
        )

    def quit(self, member_id: str, epoch: int = -1, **options: object) -> None:
        self.beat(member_id, epoch, **options)  # type: ignore[arg-type]

    # Results

    def names(self, topic_ids: Mapping[bytes, Collection[int]]) -> dict[str, set[int]]:
        """The partitions by topic name."""
        topics = self.cluster.image.topics_by_id
        return {topics[id_].name: set(numbers) for id_, numbers in topic_ids.items()}

    def told(self, answer: ConsumerGroupHeartbeatResponse) -> dict[str, set[int]] | None:
        """The assignment in a response, if it has one."""
        if answer.assignment is None:
            return None
        return self.names(
            {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
        )

    def has(self, member_id: str) -> dict[str, set[int]]:
        return self.names(self.member(member_id).assigned)

    def settle(self, rounds: int = 8) -> None:
        """All members send heartbeats until each has its target assignment.

        Like a client, a member owns its last assignment, and reports it after a change.
        """
        for _ in range(rounds):
            for member_id in list(self.consumers.members):
                member = self.member(member_id)
                if member.classic is None:
                    self.beat(
                        member_id,
                        member.epoch,
                        owned=self.names(member.assigned),
                        instance_id=member.instance_id,
                    )

    # The environment of the shard

    def topics_changed(self, *names: str) -> None:
        self.start(lambda shard, now_ms: shard.metadata_changed(names, now_ms))

    def resolve_patterns(self) -> None:
        """Does the broker's work outside of the shard."""
        for work in [one for one in self.effects if isinstance(one, ResolvePatterns)]:
            self.effects.remove(work)
            matching = PatternMatching(work)
            while matching.step(2):
                pass
            self.start(
                lambda shard, now_ms, work=work, found=matching.found: (
                    shard.consumer.patterns_resolved(work, found, now_ms)
                )
            )

    def configure_group(self, **changes: object) -> None:
        self.config = replace(self.config, **changes)  # type: ignore[arg-type]
