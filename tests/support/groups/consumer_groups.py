"""A group shard with members of consumer groups (KIP-848), driven by hand."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from headrace.cluster.image import MetadataImage, Partition
from headrace.cluster.records import MetadataRecord, PartitionsAdded, TopicCreated, TopicDeleted
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
"""By the names of the topics, or by their ids: a client may own what is no longer there."""


class Cluster:
    """Topics that come, grow and go."""

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
    """Heartbeats with the fields that a test does not care about filled in.

    Topics are t1 to t3 with three partitions each, unless a test says otherwise. A target is
    computed as soon as it may be, and not once a second.
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
        """Raises what the coordinator refuses it with."""
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
        """A member joins, for the topics or the pattern that are given, else for t1."""
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

    # What became of it

    def names(self, topic_ids: Mapping[bytes, Collection[int]]) -> dict[str, set[int]]:
        """Partitions by the names of their topics."""
        topics = self.cluster.image.topics_by_id
        return {topics[id_].name: set(numbers) for id_, numbers in topic_ids.items()}

    def told(self, answer: ConsumerGroupHeartbeatResponse) -> dict[str, set[int]] | None:
        """The assignment of an answer, if it has one."""
        if answer.assignment is None:
            return None
        return self.names(
            {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
        )

    def has(self, member_id: str) -> dict[str, set[int]]:
        return self.names(self.member(member_id).assigned)

    def settle(self, rounds: int = 8) -> None:
        """Every member heartbeats as a client does, until all have come to the target: it owns
        what it was last told, and says so when that has changed."""
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

    # The world around

    def topics_changed(self, *names: str) -> None:
        self.start(lambda shard, now_ms: shard.metadata_changed(names, now_ms))

    def resolve_patterns(self) -> None:
        """Does the work that the broker does beside the shard."""
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
