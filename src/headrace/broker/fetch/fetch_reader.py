"""Reads partitions for one fetch: isolation level, size limits, leader epochs.

Guarantees: a read_committed fetch stops at the last stable offset, a read_uncommitted one at the
high watermark (`_read_from_replica`). At least one batch is returned, even if it is larger than the
limits (KIP-74), so that no consumer gets stuck. An error of one partition does not affect others.

A follower that cannot serve a consumer (KIP-392) answers OFFSET_NOT_AVAILABLE for every reason:
only the leader knows which offsets exist, and only this code sends every client back to the leader.
After OFFSET_OUT_OF_RANGE a consumer would reset its position; after other errors librdkafka retries
the same follower for minutes, until the leader changes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct

from headrace.broker.fetch.fetch_session import FetchPlan, WantedPartition, key_of
from headrace.broker.partitions.partition_table import HostedTopic, PartitionTable
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchEpochEndOffset,
    FetchPartitionData,
)
from headrace.records.batch_header import LOG_OVERHEAD
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import OffsetOutOfRange, StorageError
from headrace.storage.state.damage import Checks

UNKNOWN_OFFSET = -1
_LENGTH = Struct(">8xi")  # the length field of a batch
_BATCH = Struct(">q15xi")  # its base offset and the last record's distance from it
UNKNOWN_EPOCH = -1


Nearest = Callable[[Leader, int], int]
"""The preferred replica for reading an offset, or -1 for the leader."""

MayRead = Callable[[str], bool]
"""Whether the client may read this topic now."""

IsCurrent = Callable[[Follower], bool]
"""Whether a follower is in sync and receives data from its leader."""


@dataclass(slots=True)
class FetchLimits:
    """The limits and the options of one request."""

    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    read_committed: bool
    by_topic_id: bool
    followers: IsCurrent | None = None  # set if followers may answer (KIP-392)
    nearest: Nearest | None = None
    may_read: MayRead | None = None  # set if there is an authorizer


@dataclass(slots=True)
class FetchedPartitions:
    """One pass over the wanted partitions."""

    data: list[tuple[WantedPartition, FetchPartitionData]] = field(default_factory=list)
    replicas: list[SoleLeader | Follower] = field(default_factory=list)
    size_bytes: int = 0
    checks: Checks = field(default_factory=Checks)
    readable: dict[str, bool] = field(default_factory=dict)  # topics that were authorized
    answer_now: bool = False  # an error or a divergence, which is reported at once


def read_partitions(
    table: PartitionTable, wanted: list[WantedPartition], limits: FetchLimits
) -> FetchedPartitions:
    """Reads each partition until the request's limit is used up."""
    fetched = FetchedPartitions()
    remaining = limits.max_bytes
    for partition in wanted:
        data = _read(table, partition, limits, remaining, fetched)
        size = len(data.records or b"")
        remaining -= size
        fetched.size_bytes += size
        fetched.data.append((partition, data))
    return fetched


def group_by_topic(
    fetched: FetchedPartitions, plan: FetchPlan, *, by_topic_id: bool
) -> list[FetchableTopicResponse]:
    """The response's topics; an incremental response leaves out unchanged partitions."""
    topics: list[FetchableTopicResponse] = []
    for wanted, data in fetched.data:
        if plan.session is not None:
            has_changed = plan.session.update_response_data(
                key_of(wanted, by_topic_id),
                error=data.error_code != ErrorCode.NONE,
                has_records=bool(data.records),
                high_watermark=data.high_watermark,
                log_start=data.log_start_offset,
                diverged=data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0,
            )
            if plan.incremental and not has_changed:
                continue
        last = topics[-1] if topics else None
        if last is None or last.topic != wanted.topic or last.topic_id != wanted.topic_id:
            last = FetchableTopicResponse(
                topic=wanted.topic, topic_id=wanted.topic_id, partitions=[]
            )
            topics.append(last)
        last.partitions.append(data)
    return topics


def _read(
    table: PartitionTable,
    wanted: WantedPartition,
    limits: FetchLimits,
    remaining: int,
    fetched: FetchedPartitions,
) -> FetchPartitionData:
    if limits.by_topic_id:
        topic = table.by_id.get(wanted.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = table.by_name.get(wanted.topic)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if limits.may_read is not None:
        # In every pass: the right may have been revoked while the fetch waited.
        denied = _denied_code(limits, limits.may_read, topic, wanted, fetched)
        if denied is not None:
            return _failed(wanted, denied, fetched)
    if topic is None:
        return _failed(wanted, unknown, fetched)
    leader = topic.find(wanted.partition)
    replica = leader if isinstance(leader, SoleLeader) else topic.followers.get(wanted.partition)
    if not isinstance(leader, SoleLeader) and (replica is None or limits.followers is None):
        return _failed(wanted, leader, fetched)
    assert replica is not None
    fenced = replica.check_epoch(wanted.current_leader_epoch)
    if fenced:
        return _failed(wanted, fenced, fetched)
    try:
        data = _read_from_replica(replica, wanted, limits, remaining, fetched)
    except StorageError as error:
        is_leader = isinstance(replica, SoleLeader)
        code = error.code if is_leader else ErrorCode.OFFSET_NOT_AVAILABLE
        return _failed(wanted, code, fetched)
    if limits.followers is not None and not data.records and isinstance(replica, Follower):
        at_end = wanted.fetch_offset >= replica.high_watermark
        if at_end and not limits.followers(replica):
            # A follower that is not in sync may not get more records for a long time.
            return _failed(wanted, ErrorCode.OFFSET_NOT_AVAILABLE, fetched)
    fetched.replicas.append(replica)
    return data


def _denied_code(
    limits: FetchLimits,
    may_read: MayRead,
    topic: HostedTopic | None,
    wanted: WantedPartition,
    fetched: FetchedPartitions,
) -> ErrorCode | None:
    """The error for a topic that the client may not read, whether its name exists or not."""
    if limits.by_topic_id:
        if topic is None:
            return None  # an unknown id
        name = topic.name
    else:
        name = wanted.topic
    allowed = fetched.readable.get(name)
    if allowed is None:
        allowed = fetched.readable[name] = may_read(name)
    return None if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _read_from_replica(
    replica: SoleLeader | Follower,
    wanted: WantedPartition,
    limits: FetchLimits,
    remaining: int,
    fetched: FetchedPartitions,
) -> FetchPartitionData:
    log = replica.log
    high_watermark = replica.high_watermark
    data = FetchPartitionData(
        partition_index=wanted.partition,
        high_watermark=high_watermark,
        log_start_offset=log.log_start_offset,
        aborted_transactions=[] if limits.read_committed else None,
        records=b"",
    )
    stable = data.last_stable_offset = replica.last_stable_offset
    bound = stable if limits.read_committed else high_watermark
    if wanted.last_fetched_epoch >= 0:
        epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if epoch == UNKNOWN_EPOCH:
            # The reader knows an epoch that this log never had: the logs cannot be compared.
            raise OffsetOutOfRange(
                log.name, wanted.fetch_offset, log.log_start_offset, log.log_end_offset
            )
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
            if isinstance(replica, Follower):  # the follower may only be behind
                raise OffsetOutOfRange(
                    log.name, wanted.fetch_offset, log.log_start_offset, log.log_end_offset
                )
            data.diverging_epoch = FetchEpochEndOffset(epoch=epoch, end_offset=end_offset)
            fetched.answer_now = True
            return data
    if limits.nearest is not None and isinstance(replica, Leader):
        nearest = limits.nearest(replica, wanted.fetch_offset)
        if nearest >= 0:
            data.preferred_read_replica = nearest
            fetched.answer_now = True
            return data
    result = log.read(
        wanted.fetch_offset,
        max_bytes=max(0, min(wanted.max_bytes, remaining)),
        max_offset=bound,
        min_one_message=fetched.size_bytes == 0,
        checks=fetched.checks,
    )
    data.records = result.data
    if fetched.checks.ended_early:
        fetched.answer_now = True  # the log has more records, so the response must not wait
    if limits.read_committed and result.data and log.has_aborted_transactions(wanted.fetch_offset):
        # Only transactions that overlap with the returned records: a log may have many more.
        until = min(bound, _next_offset(result.data))
        data.aborted_transactions = [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in log.aborted_transactions(wanted.fetch_offset, until)
        ]
    return data


def _next_offset(data: bytes) -> int:
    """The offset after the last batch that begins in `data`."""
    end = len(data) - _BATCH.size
    pos, begins = 0, 0
    while pos <= end:
        begins = pos
        pos += LOG_OVERHEAD + _LENGTH.unpack_from(data, pos)[0]
    base_offset, last_offset_delta = _BATCH.unpack_from(data, begins)
    return int(base_offset + last_offset_delta + 1)


def _failed(
    wanted: WantedPartition, error: ErrorCode, fetched: FetchedPartitions
) -> FetchPartitionData:
    fetched.answer_now = True
    return FetchPartitionData(
        partition_index=wanted.partition,
        error_code=error,
        high_watermark=UNKNOWN_OFFSET,
        last_stable_offset=UNKNOWN_OFFSET,
        log_start_offset=UNKNOWN_OFFSET,
        records=b"",
    )
