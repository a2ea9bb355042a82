"""DescribeShareGroupOffsets (key 90), versions 0-1: start offsets of share groups.

* v1: the lag (KIP-1226); in a tagged field of Headrace's own also its age.
* Headrace's own: on request, the records that members hold, from the leaders of the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from headrace.broker.lag.group_positions import READ_UNCOMMITTED
from headrace.broker.lag.share_locks import read_local_locks, read_locks
from headrace.broker.network.dispatch import Context
from headrace.broker.share.lock_fields import add_locks
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.share.state_topics import Partitions
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.lag.lag import PartitionLag
    from headrace.broker.node import Broker
    from headrace.coordinator.share_state.share_state_shard import StateSummary

UNKNOWN: Final = -1


async def handle(
    broker: Broker, context: Context, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[
            await _describe_group(
                broker,
                context,
                asked,
                include_locks=request.include_locks,
                locks_only=request.locks_only,
            )
            for asked in request.groups
        ]
    )


async def _describe_group(
    broker: Broker,
    context: Context,
    asked: DescribeShareGroupOffsetsRequestGroup,
    *,
    include_locks: bool,
    locks_only: bool,
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id, access, session = asked.group_id, broker.access, context.session
    if not access.allows(session, AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )

    def may_describe(name: str) -> bool:
        return access.shows(session, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)

    failed: list[DescribeShareGroupOffsetsResponseTopic] = []
    wanted: dict[bytes, frozenset[int]] = {}
    try:
        if asked.topics is None:
            wanted.update(_stored_partitions(broker, group_id, may_describe))
    except CoordinatorError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=error.code, error_message=error.message or None
        )
    for topic in asked.topics or ():
        known = broker.metadata.image.topics.get(topic.topic_name)
        if not may_describe(topic.topic_name):
            failed.append(_failed_topic(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif known is not None:
            wanted[known.topic_id] = frozenset(topic.partitions)
        else:
            failed.append(_failed_topic(topic, ErrorCode.NONE))
    if locks_only:
        topics = await _local_locks(broker, group_id, wanted)
    else:
        topics = await _described_topics(broker, group_id, wanted)
        if include_locks:
            keys = _keys(group_id, wanted)
            add_locks(group_id, topics, await read_locks(broker, group_id, keys))
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=[*topics, *failed])


def _keys(group_id: str, wanted: Partitions) -> Iterable[SharePartitionKey]:
    return (
        SharePartitionKey(group_id, topic_id, index)
        for topic_id, indexes in wanted.items()
        for index in sorted(indexes)
    )


async def _local_locks(
    broker: Broker, group_id: str, wanted: Partitions
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    """What is in flight in the partitions that this broker leads."""
    held = await read_local_locks(broker, _keys(group_id, wanted))
    topics: dict[bytes, DescribeShareGroupOffsetsResponseTopic] = {}
    for key in held:
        _add_partition(broker, topics, key, _unknown_partition(key))
    add_locks(group_id, topics.values(), held)
    return list(topics.values())


async def _described_topics(
    broker: Broker, group_id: str, wanted: Partitions
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    """The start offsets and the lag."""
    summaries = await broker.coordinators.share_group_states.summaries(group_id, wanted)
    isolation = broker.coordinators.group_config(group_id).share_isolation_level
    lags = await broker.lag.of_share_group(
        {key: each for key, each in summaries.items() if not isinstance(each, CoordinatorError)},
        skip_aborted=isolation != READ_UNCOMMITTED,
    )
    topics: dict[bytes, DescribeShareGroupOffsetsResponseTopic] = {}
    for key, summary in summaries.items():
        _add_partition(broker, topics, key, _described_partition(key, summary, lags.get(key)))
    return list(topics.values())


def _add_partition(
    broker: Broker,
    topics: dict[bytes, DescribeShareGroupOffsetsResponseTopic],
    key: SharePartitionKey,
    described: DescribeShareGroupOffsetsResponsePartition,
) -> None:
    topic = topics.get(key.topic_id)
    if topic is None:
        hosted = broker.partitions.by_id.get(key.topic_id)
        topic = topics[key.topic_id] = DescribeShareGroupOffsetsResponseTopic(
            topic_id=key.topic_id, topic_name=hosted.name if hosted else "", partitions=[]
        )
    topic.partitions.append(described)


def _stored_partitions(
    broker: Broker, group_id: str, may_describe: Callable[[str], bool]
) -> Partitions:
    """All partitions with stored state; none for a group that does not exist, as in Kafka."""
    try:
        stored = broker.groups.read(
            group_id, lambda shard, _: shard.share.stored_partitions(group_id)
        )
    except CoordinatorError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise
    topics = broker.metadata.image.topics_by_id
    return {
        topic_id: numbers
        for topic_id, numbers in stored.items()
        if topic_id in topics and may_describe(topics[topic_id].name)
    }


def _described_partition(
    key: SharePartitionKey, summary: StateSummary | CoordinatorError, lag: PartitionLag | None
) -> DescribeShareGroupOffsetsResponsePartition:
    described = _unknown_partition(key)
    if isinstance(summary, CoordinatorError):
        return described
    described.start_offset = summary.start_offset
    described.leader_epoch = summary.leader_epoch
    if lag is not None and lag.records is not None:
        described.lag = lag.records
        if lag.seconds is not None:
            described.lag_ms = round(lag.seconds * 1000)
    return described


def _unknown_partition(key: SharePartitionKey) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=key.partition, start_offset=UNKNOWN, lag=UNKNOWN
    )


def _failed_topic(
    asked: DescribeShareGroupOffsetsRequestTopic, code: ErrorCode
) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=number, start_offset=UNKNOWN, lag=UNKNOWN, error_code=code
            )
            for number in asked.partitions
        ],
    )
