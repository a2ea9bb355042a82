"""Drives a group shard that commits and fetches offsets of existing topics."""

from collections.abc import Iterable, Mapping
from random import Random

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import TopicCreated, TopicDeleted
from headrace.cluster.topology import Partition
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.group_shard import GroupShard
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.protocol.types import ZERO_UUID
from support.groups.classic_groups import GROUP, ClassicDriver
from support.groups.shards import ShardDriver

FIRST_WITH_IDS = 10  # of OffsetCommit and of OffsetFetch
NEWEST_TXN_COMMIT = 5
_ALONE = Partition(replicas=(1,), isr=(1,), leader=1)

Codes = dict[tuple[str, int], ErrorCode]


class OffsetsDriver(ClassicDriver):
    """Topics "t" and "u" with two partitions each, and defaults for the other fields."""

    def __init__(self, config: GroupConfig | None = None, *, seed: int = 1) -> None:
        self.config = config or GroupConfig(classic_initial_rebalance_delay_ms=0)
        self.image = MetadataImage()
        self._topics_made = 0
        random = Random(seed)
        ShardDriver.__init__(
            self,
            lambda: GroupShard(0, lambda: self.image, lambda group_id: self.config, random),
        )
        self.create("t", "u")

    def create(self, *names: str, partitions: int = 2) -> None:
        for name in names:
            self._topics_made += 1
            topic_id = self._topics_made.to_bytes(16, "big")
            created = TopicCreated(name, topic_id, (_ALONE,) * partitions)
            self.image = self.image.apply([created])
        self.start(lambda shard, now_ms: shard.metadata_changed(names, now_ms))

    def drop(self, *names: str) -> None:
        for name in names:
            self.image = self.image.apply([TopicDeleted(self.topic_id(name))])
        self.start(lambda shard, now_ms: shard.metadata_changed(names, now_ms))

    def topic_id(self, name: str) -> bytes:
        return self.image.topics[name].topic_id

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        group_id: str = GROUP,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
        version: int = FIRST_WITH_IDS - 1,
    ) -> Codes:
        """Commits by name, from version 10 on by id; returns an error code for each partition."""
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name="" if version >= FIRST_WITH_IDS else topic,
                    topic_id=self._id(topic, version),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        answer = self.run(lambda shard, now_ms: shard.offsets.commit(version, request, now_ms))
        return _codes(
            offsets, [one.error_code for topic in answer.topics for one in topic.partitions]
        )

    def commit_in_transaction(
        self,
        offsets: Mapping[tuple[str, int], int],
        producer: ProducerIdentity,
        *,
        group_id: str = GROUP,
        member_id: str = "",
        generation: int = -1,
        metadata: str = "",
    ) -> Codes:
        request = TxnOffsetCommitRequest(
            transactional_id="writer",
            group_id=group_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            generation_id=generation,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        answer = self.run(
            lambda shard, now_ms: shard.offsets.commit_in_transaction(
                NEWEST_TXN_COMMIT, request, now_ms
            )
        )
        return _codes(
            offsets, [one.error_code for topic in answer.topics for one in topic.partitions]
        )

    def fetch(
        self,
        *partitions: tuple[str, int],
        group_id: str = GROUP,
        stable: bool = False,
        member_id: str | None = None,
        epoch: int = -1,
        version: int = FIRST_WITH_IDS - 1,
    ) -> OffsetFetchResponseGroup:
        """Fetches these partitions, or all partitions of the group."""
        request = OffsetFetchRequestGroup(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            topics=[
                OffsetFetchRequestTopics(
                    name="" if version >= FIRST_WITH_IDS else topic,
                    topic_id=self._id(topic, version),
                    partition_indexes=[partition],
                )
                for topic, partition in partitions
            ]
            or None,
        )
        return self.shard.offsets.fetch(version, request, stable=stable)

    def offsets(
        self, *partitions: tuple[str, int], group_id: str = GROUP, stable: bool = False
    ) -> dict[tuple[str, int], int]:
        """The result of `fetch` as numbers; fails on an error."""
        answer = self.fetch(*partitions, group_id=group_id, stable=stable)
        assert all(one.error_code == 0 for topic in answer.topics for one in topic.partitions)
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in answer.topics
            for one in topic.partitions
        }

    def delete_offsets(
        self, partitions: Iterable[tuple[str, int]], *, group_id: str = GROUP
    ) -> Codes:
        asked = list(partitions)
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[OffsetDeleteRequestPartition(partition_index=partition)],
                )
                for topic, partition in asked
            ],
        )
        answer = self.run(lambda shard, now_ms: shard.offsets.delete(request))
        return _codes(
            asked, [one.error_code for topic in answer.topics for one in topic.partitions]
        )

    def delete_group(self, group_id: str = GROUP) -> ErrorCode:
        deleted = self.start(lambda shard, now_ms: shard.listing.delete(group_id))
        return deleted.outcome.code if deleted.outcome is not None else ErrorCode.NONE

    def _id(self, name: str, version: int) -> bytes:
        """The topic id in a request of this version."""
        topic = self.image.topics.get(name)
        return ZERO_UUID if topic is None or version < FIRST_WITH_IDS else topic.topic_id


def _codes(asked: Iterable[tuple[str, int]], codes: Iterable[int]) -> Codes:
    return dict(zip(asked, map(ErrorCode, codes), strict=True))
