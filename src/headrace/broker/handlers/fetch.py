"""Fetch (key 1), versions 4-18: reads record batches.

* v7: fetch sessions (KIP-227).
* v11: the client's rack (KIP-392).
* v12: flexible; carries the epoch of the last fetched record.
* v13: topics by id.
* v15: the replica id and its epoch in a tagged field; followers must use it.
* v16: the response has the new leader and its endpoint for partitions with a wrong leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.broker.fetch.delayed_fetch import (
    DelayedFetch,
    DelayedFetchFromFollower,
    DelayedReadCommittedFetch,
)
from headrace.broker.fetch.fetch_reader import (
    FetchedPartitions,
    FetchLimits,
    MayRead,
    Nearest,
    group_by_topic,
    read_partitions,
)
from headrace.broker.fetch.fetch_session import (
    NO_SESSION,
    FetchPlan,
    PartitionKey,
    WantedPartition,
)
from headrace.broker.fetch.fetch_traffic import count_fetched
from headrace.broker.fetch.replica_selector import RACK_AWARE, nearest_replica
from headrace.broker.network.dispatch import Context
from headrace.broker.partitions.leader_hints import (
    WRONG_LEADER_ERRORS,
    WrongLeader,
    add_leader_hints,
    topic_of,
)
from headrace.broker.replication import follower_fetch
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import (
    FetchLeaderIdAndEpoch,
    FetchNodeEndpoint,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from headrace.protocol.struct import Struct
from headrace.replication.follower import Follower
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_REPLICA_EPOCH = 15
FIRST_VERSION_WITH_ENDPOINTS = 16
READ_COMMITTED = 1
UNSENT_BUDGET_BYTES = 64 * 1024 * 1024
REDUCED_FETCH_BYTES = 64 * 1024
CONSUMER_REPLICA_IDS = (-1, -2)  # -2: Kafka's debugging consumer


def handle(
    broker: Broker, context: Context, request: FetchRequest
) -> FetchResponse | asyncio.Future[Struct | None]:
    by_topic_id = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
    replica_id = _replica_id(request)
    if replica_id not in CONSUMER_REPLICA_IDS:
        if broker.access.is_enforced and not broker.access.allows_cluster(
            context.session, AclOperation.CLUSTER_ACTION
        ):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return _reject_replica(request, code, by_topic_id=by_topic_id)
        if context.version < FIRST_VERSION_WITH_REPLICA_EPOCH:
            # Without a replica epoch, a follower cannot be distinguished from its earlier
            # incarnation.
            return _reject_replica(
                request, ErrorCode.NOT_LEADER_OR_FOLLOWER, by_topic_id=by_topic_id
            )
        epoch = request.replica_state.replica_epoch
        return follower_fetch.handle(broker, request, replica_id, epoch)
    plan = broker.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        _wanted_partitions(request),
        _forgotten_partitions(request, by_topic_id),
        uses_topic_ids=by_topic_id,
        now=broker.clock.monotonic(),
    )
    if not isinstance(plan, FetchPlan):
        return FetchResponse(error_code=plan, session_id=0, responses=[])
    limits = _fetch_limits(broker, context, request)
    fetched = read_partitions(broker.partitions, plan.wanted, limits)
    if (
        fetched.size_bytes >= limits.min_bytes
        or limits.max_wait_ms <= 0
        or fetched.answer_now
        or not fetched.replicas
        or broker.stopping
    ):
        return _fetch_response(broker, context, fetched, plan, limits)
    return _delay_fetch(broker, context, fetched, plan, limits)


def _delay_fetch(
    broker: Broker,
    context: Context,
    fetched: FetchedPartitions,
    plan: FetchPlan,
    limits: FetchLimits,
) -> asyncio.Future[Struct | None]:
    def answer() -> FetchResponse:
        fetched = read_partitions(broker.partitions, plan.wanted, limits)
        return _fetch_response(broker, context, fetched, plan, limits)

    if broker.request_meters is not None:
        answer = broker.request_meters.measured(ApiKey.FETCH, answer)

    def enough() -> bool:
        now = read_partitions(broker.partitions, plan.wanted, limits)
        return now.answer_now or now.size_bytes >= limits.min_bytes

    missing_bytes = limits.min_bytes - fetched.size_bytes
    max_wait_s = limits.max_wait_ms / 1000
    replicas = fetched.replicas
    if any(isinstance(replica, Follower) for replica in replicas):
        kind: type[DelayedFetch] = DelayedFetchFromFollower
    else:
        kind = DelayedReadCommittedFetch if limits.read_committed else DelayedFetch
    delayed = kind(broker.loop, replicas, missing_bytes, max_wait_s, answer, enough)
    broker.delayed_fetches[delayed] = None
    delayed.future.add_done_callback(lambda _: broker.delayed_fetches.pop(delayed, None))
    return delayed.future  # type: ignore[return-value]


def _fetch_response(
    broker: Broker,
    context: Context,
    fetched: FetchedPartitions,
    plan: FetchPlan,
    limits: FetchLimits,
) -> FetchResponse:
    metered = broker.quotas.record_fetch(context, fetched.size_bytes)
    if metered is not None and not metered.is_recorded:
        return _throttled_response(broker, plan, metered.throttle_ms)
    if broker.partitions.traffic is not None:
        count_fetched(broker.partitions, fetched, by_topic_id=limits.by_topic_id)
    response = FetchResponse(
        throttle_time_ms=0 if metered is None else metered.throttle_ms,
        session_id=plan.session_id,
        responses=group_by_topic(fetched, plan, by_topic_id=limits.by_topic_id),
    )
    if fetched.answer_now and context.version >= FIRST_VERSION_WITH_ENDPOINTS:
        _add_leader_hints(broker, context, response)
    return response


def _throttled_response(broker: Broker, plan: FetchPlan, throttle_ms: int) -> FetchResponse:
    """The response to a client over its quota: no records (KIP-219). The positions of its session
    are as before; a new session is not created, because the client did not get its partitions."""
    session_id = plan.session_id
    if plan.session is not None and not plan.incremental:
        broker.fetch_sessions.close(session_id)
        session_id = NO_SESSION
    return FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id, responses=[])


def _add_leader_hints(broker: Broker, context: Context, response: FetchResponse) -> None:
    image = broker.metadata.image
    wrong = (
        WrongLeader(topic_of(image, topic.topic, topic.topic_id), data.partition_index, data)
        for topic in response.responses
        for data in topic.partitions
        if data.error_code in WRONG_LEADER_ERRORS
    )
    response.node_endpoints = add_leader_hints(
        image, context.connection.listener, wrong, FetchLeaderIdAndEpoch, FetchNodeEndpoint
    )


def _nearest_replica_selector(broker: Broker, request: FetchRequest) -> Nearest | None:
    if not request.rack_id or broker.settings.string("replica.selector.class") != RACK_AWARE:
        return None
    image, rack = broker.metadata.image, request.rack_id
    return lambda leader, offset: nearest_replica(leader, image, broker.node_id, rack, offset)


def _fetch_limits(broker: Broker, context: Context, request: FetchRequest) -> FetchLimits:
    max_bytes = max(0, min(request.max_bytes, broker.limits.fetch_max_bytes))
    if broker.server.unsent_bytes > UNSENT_BUDGET_BYTES:
        # Unsent responses occupy much memory. Small responses limit the memory for each client.
        max_bytes = min(max_bytes, REDUCED_FETCH_BYTES)
    quota_bytes = broker.quotas.max_fetch_bytes(context)
    if quota_bytes is not None:  # more would certainly exceed the quota
        max_bytes = min(max_bytes, quota_bytes)
    return FetchLimits(
        max_bytes=max_bytes,
        min_bytes=min(request.min_bytes, max_bytes),
        max_wait_ms=request.max_wait_ms,
        read_committed=request.isolation_level == READ_COMMITTED,
        by_topic_id=context.version >= FIRST_VERSION_WITH_TOPIC_IDS,
        # Only clients that set client.rack are redirected to followers.
        followers=broker.replication.is_current if request.rack_id else None,
        nearest=_nearest_replica_selector(broker, request),
        may_read=_read_access(broker, context) if broker.access.is_enforced else None,
    )


def _read_access(broker: Broker, context: Context) -> MayRead:
    access, session = broker.access, context.session
    return lambda name: access.allows(session, AclOperation.READ, AclResourceType.TOPIC, name)


def _wanted_partitions(request: FetchRequest) -> Iterator[WantedPartition]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield WantedPartition(
                topic.topic,
                topic.topic_id,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
            )


def _forgotten_partitions(request: FetchRequest, by_topic_id: bool) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield (topic.topic_id if by_topic_id else topic.topic, partition)


def _replica_id(request: FetchRequest) -> int:
    if request.replica_id != -1:
        return request.replica_id
    return request.replica_state.replica_id


def _reject_replica(request: FetchRequest, code: ErrorCode, *, by_topic_id: bool) -> FetchResponse:
    fetched = FetchedPartitions()
    for wanted in _wanted_partitions(request):
        data = FetchPartitionData(
            partition_index=wanted.partition,
            error_code=code,
            high_watermark=-1,
            records=b"",
        )
        fetched.data.append((wanted, data))
    topics = group_by_topic(fetched, FetchPlan([]), by_topic_id=by_topic_id)
    return FetchResponse(responses=topics)
