"""ShareFetch (key 78), versions 1-2: acquires records for a member of a share group.

A request may also carry acknowledgements of records acquired before.

* v2: strict record limits (KIP-1206) and the renewal of acquisition locks (KIP-1222). A request
  that renews locks fetches nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.share.share_acknowledgements import (
    Acknowledged,
    acknowledge_partitions,
    add_share_leader_hints,
    checked_session_key,
    read_access,
    when_all,
)
from headrace.broker.share.share_fetch_reader import (
    MayRead,
    SharedRecords,
    ShareFetchLimits,
    ShareRead,
)
from headrace.broker.share.share_partition_runner import DONE, AcknowledgeOutcome
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.share_fetch import (
    AcquiredRecords,
    ShareFetchableTopicResponse,
    ShareFetchLeaderIdAndEpoch,
    ShareFetchNodeEndpoint,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from headrace.protocol.struct import Struct
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.share.batch_size import BatchLimit
from headrace.share.share_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    SharedPartition,
    ShareFetchPlan,
    ShareSessionError,
)

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

RECORD_LIMIT: Final = 1  # acquire mode: never more records than `max_records`
READ_COMMITTED: Final = "read_committed"


def authorize(broker: Broker, check: RequestCheck, request: ShareFetchRequest) -> Verdict:
    if request.group_id is None:
        return None  # an invalid request, which the handler refuses
    return check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)


def handle(
    broker: Broker, context: Context, request: ShareFetchRequest
) -> ShareFetchResponse | asyncio.Future[Struct | None]:
    if not broker.coordinators.serves_share_groups:
        return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        key = checked_session_key(request.group_id, request.member_id)
        _check_renewal_fields(request)
        plan = broker.shares.sessions.begin(
            key,
            request.share_session_epoch,
            list(_requested_partitions(request)),
            list(_forgotten_partitions(request)),
            acknowledges=_has_acknowledgements(request),
            limit=broker.settings.integer("group.share.max.share.sessions"),
        )
    except ShareSessionError as error:
        refusal = ShareFetchResponse(error_code=error.code, error_message=error.message)
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED and request.max_wait_ms > 0:
            return _respond_after(broker, request.max_wait_ms, refusal)
        return refusal
    if request.share_session_epoch == INITIAL_EPOCH:
        broker.shares.bind(context.connection, key)
    return _acknowledge_and_fetch(broker, context, request, key, plan)


def _acknowledge_and_fetch(
    broker: Broker,
    context: Context,
    request: ShareFetchRequest,
    key: SessionKey,
    plan: ShareFetchPlan,
) -> ShareFetchResponse | asyncio.Future[Struct | None]:
    acknowledged: Acknowledged = {}
    may_read = read_access(broker.access, context.session)
    if _has_acknowledgements(request):
        acknowledged = acknowledge_partitions(
            broker.shares, key, request.topics, renews=request.is_renew_ack, may_read=may_read
        )
    if request.is_renew_ack:
        plan = plan._replace(partitions=[])
    want = _share_fetch_limits(broker, request, key, may_read)
    partitions = plan.rotated(request.share_session_epoch) if want.take.max_records > 0 else []
    fetching = broker.shares.fetch(key.group_id, partitions, want)

    def answer(
        read: ShareRead, outcomes: dict[SharedPartition, AcknowledgeOutcome]
    ) -> ShareFetchResponse:
        if request.share_session_epoch == FINAL_EPOCH:
            broker.shares.close_session(key)
        config = broker.coordinators.group_config(key.group_id)
        response = ShareFetchResponse(
            acquisition_lock_timeout_ms=config.share_record_lock_duration_ms,
            responses=_topic_responses(read, outcomes, plan),
        )
        if broker.partitions.traffic is not None:
            _count_fetched(broker.partitions, response)
        add_share_leader_hints(
            response,
            broker.metadata.image,
            context.connection.listener,
            ShareFetchLeaderIdAndEpoch,
            ShareFetchNodeEndpoint,
        )
        return response

    return when_all(broker.loop, fetching, acknowledged, answer)


def _check_renewal_fields(request: ShareFetchRequest) -> None:
    if not request.is_renew_ack:
        return
    names = ("max_bytes", "min_bytes", "max_records", "max_wait_ms")
    wrong = [name for name in names if getattr(request, name)]
    if wrong:
        raise ShareSessionError(
            ErrorCode.INVALID_REQUEST,
            f"A request that renews locks must set these fields to 0: {', '.join(wrong)}.",
        )


def _share_fetch_limits(
    broker: Broker, request: ShareFetchRequest, key: SessionKey, may_read: MayRead | None
) -> ShareFetchLimits:
    max_bytes = max(0, min(request.max_bytes, broker.limits.fetch_max_bytes))
    config = broker.coordinators.group_config(key.group_id)
    return ShareFetchLimits(
        member=key.member_id,
        take=BatchLimit(
            max_records=request.max_records if max_bytes else 0,
            batch_size=request.batch_size,
            strict=request.share_acquire_mode == RECORD_LIMIT,
        ),
        max_bytes=max_bytes,
        min_bytes=min(request.min_bytes, max_bytes),
        max_wait_ms=request.max_wait_ms if request.max_records > 0 and max_bytes else 0,
        read_committed=config.share_isolation_level == READ_COMMITTED,
        may_read=may_read,
    )


def _topic_responses(
    read: ShareRead, outcomes: dict[SharedPartition, AcknowledgeOutcome], plan: ShareFetchPlan
) -> list[ShareFetchableTopicResponse]:
    """Partitions that have records, an error or an acknowledgement, grouped by topic."""
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for partition in dict.fromkeys((*read.found, *read.failed, *outcomes)):
        found = read.found.get(partition)
        if found is not None and plan.session is not None:
            plan.session.move_to_end(partition)
        topic_id, index = partition
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id, partitions=[])
        failed, said = read.failed.get(partition, DONE), outcomes.get(partition, DONE)
        topic.partitions.append(_partition_data(index, found, failed, said))
    return list(topics.values())


def _count_fetched(table: PartitionTable, response: ShareFetchResponse) -> None:
    for topic in response.responses:
        hosted = table.by_id.get(topic.topic_id)
        if hosted is not None and hosted.traffic is not None:
            hosted.traffic.fetches += len(topic.partitions)
            hosted.traffic.bytes_out += sum(len(each.records or b"") for each in topic.partitions)


def _partition_data(
    index: int,
    found: SharedRecords | None,
    failed: AcknowledgeOutcome,
    acknowledged: AcknowledgeOutcome,
) -> ShareFetchPartitionData:
    data = ShareFetchPartitionData(
        partition_index=index,
        error_code=failed.code,
        error_message=failed.message,
        acknowledge_error_code=acknowledged.code,
        acknowledge_error_message=acknowledged.message,
        records=b"",
    )
    if found is not None:
        data.records = found.records
        data.acquired_records = [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=deliveries)
            for first, last, deliveries in found.acquired
        ]
    return data


def _requested_partitions(request: ShareFetchRequest) -> Iterator[SharedPartition]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield bytes(topic.topic_id), partition.partition_index


def _forgotten_partitions(request: ShareFetchRequest) -> Iterator[SharedPartition]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield bytes(topic.topic_id), index


def _has_acknowledgements(request: ShareFetchRequest) -> bool:
    return any(
        partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    )


def _respond_after(
    broker: Broker, delay_ms: int, answer: ShareFetchResponse
) -> asyncio.Future[Struct | None]:
    """As in Kafka, a response without a session is sent after the fetch's maximum wait."""
    future: asyncio.Future[Struct | None] = broker.loop.create_future()

    def respond() -> None:
        if not future.done():
            future.set_result(answer)

    timer = broker.loop.call_later(delay_ms / 1000, respond)
    future.add_done_callback(lambda _: timer.cancel())
    return future
