"""The common part of ShareFetch and ShareAcknowledge: acknowledgements and leader hints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.broker.access.access_control import AccessControl
from headrace.broker.partitions.leader_hints import (
    WRONG_LEADER_ERRORS,
    PartitionResponse,
    WrongLeader,
    add_leader_hints,
)
from headrace.broker.share.share_fetch_reader import MayRead, ShareRead
from headrace.broker.share.share_partition_runner import (
    DONE,
    AcknowledgeOutcome,
    SharePartitionRunner,
)
from headrace.cluster.image import MetadataImage
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.share_acknowledge import AcknowledgeTopic
from headrace.protocol.messages.share_fetch import ShareFetchFetchTopic
from headrace.protocol.struct import Struct
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.security.session import Session
from headrace.share.acknowledgements import read_acknowledgements
from headrace.share.errors import AcknowledgeError
from headrace.share.share_session import SessionKey, SharedPartition, ShareSessionError

if TYPE_CHECKING:
    from headrace.broker.share.share_partition_manager import SharePartitionManager

MAX_MEMBER_ID_CHARS: Final = 36  # the client chooses it: a UUID

Acknowledged = dict[SharedPartition, "AcknowledgeOutcome | asyncio.Future[AcknowledgeOutcome]"]
A = TypeVar("A", bound=Struct)
LeaderT = TypeVar("LeaderT")
EndpointT = TypeVar("EndpointT")


class SharePartitionResponse(PartitionResponse[LeaderT], Protocol[LeaderT]):
    """A partition in the response of ShareFetch or ShareAcknowledge."""

    partition_index: int
    error_code: int


class ShareTopicResponse(Protocol[LeaderT]):
    """A topic in the response of ShareFetch or ShareAcknowledge."""

    topic_id: bytes

    @property
    def partitions(self) -> Sequence[SharePartitionResponse[LeaderT]]: ...


class ShareResponse(Protocol[LeaderT, EndpointT]):
    """The response of ShareFetch or ShareAcknowledge."""

    acquisition_lock_timeout_ms: int
    node_endpoints: list[EndpointT]

    @property
    def responses(self) -> Sequence[ShareTopicResponse[LeaderT]]: ...


def checked_session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """The session of the request; raises ShareSessionError for an invalid group or member id."""
    if group_id is None:
        raise ShareSessionError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not member_id or len(member_id) > MAX_MEMBER_ID_CHARS:
        raise ShareSessionError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(group_id, member_id)


def acknowledge_partitions(
    shares: SharePartitionManager,
    key: SessionKey,
    topics: Iterable[ShareFetchFetchTopic] | Iterable[AcknowledgeTopic],
    *,
    renews: bool,
    may_read: MayRead | None,
) -> Acknowledged:
    """One outcome for each partition of the request, either now or once it is stored."""
    acknowledged: Acknowledged = {}
    for topic in topics:
        for named in topic.partitions:
            partition = bytes(topic.topic_id), named.partition_index
            denied = shares.denied_outcome(partition, may_read)
            if denied is not None:
                acknowledged[partition] = denied
                continue
            try:
                said = read_acknowledgements(named.acknowledgement_batches, renews=renews)
            except AcknowledgeError as error:
                acknowledged[partition] = AcknowledgeOutcome(error.code, error.message)
                continue
            live = shares.find_loaded(key.group_id, partition)
            if not said:
                unknown = not isinstance(live, SharePartitionRunner) and live.code
                acknowledged[partition] = (
                    AcknowledgeOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
                    if unknown is ErrorCode.UNKNOWN_TOPIC_ID
                    else DONE
                )
            elif isinstance(live, SharePartitionRunner):
                acknowledged[partition] = live.acknowledge(key.member_id, said)
            else:
                acknowledged[partition] = live
    return acknowledged


def add_share_leader_hints(
    response: ShareResponse[LeaderT, EndpointT],
    image: MetadataImage,
    listener: str,
    leader: Callable[..., LeaderT],
    endpoint: Callable[..., EndpointT],
) -> None:
    """Like `add_leader_hints`, for partitions of `response` that this broker does not lead."""
    known = image.topics_by_id
    wrong = (
        WrongLeader(known.get(topic.topic_id), data.partition_index, data)
        for topic in response.responses
        for data in topic.partitions
        if data.error_code in WRONG_LEADER_ERRORS
    )
    response.node_endpoints = add_leader_hints(image, listener, wrong, leader, endpoint)


def read_access(access: AccessControl, session: Session) -> MayRead | None:
    """Whether the member may read a topic; None without an authorizer."""
    if not access.is_enforced:
        return None
    return lambda name: access.allows(session, AclOperation.READ, AclResourceType.TOPIC, name)


def when_all(
    loop: asyncio.AbstractEventLoop,
    reading: ShareRead | asyncio.Future[ShareRead],
    acknowledged: Acknowledged,
    answer: Callable[[ShareRead, dict[SharedPartition, AcknowledgeOutcome]], A],
) -> A | asyncio.Future[Struct | None]:
    """The response when all of its parts are complete, which is often immediately."""
    waiting: list[asyncio.Future[AcknowledgeOutcome] | asyncio.Future[ShareRead]] = [
        outcome for outcome in acknowledged.values() if isinstance(outcome, asyncio.Future)
    ]
    if isinstance(reading, asyncio.Future):
        waiting.append(reading)

    def build() -> A:
        read = reading.result() if isinstance(reading, asyncio.Future) else reading
        outcomes = {
            partition: outcome.result() if isinstance(outcome, asyncio.Future) else outcome
            for partition, outcome in acknowledged.items()
        }
        return answer(read, outcomes)

    if not waiting:
        return build()
    future: asyncio.Future[Struct | None] = loop.create_future()
    left = len(waiting)

    def one_more(_: object) -> None:
        nonlocal left
        left -= 1
        if left or future.done():
            return
        try:
            future.set_result(build())
        except Exception as error:
            future.set_exception(error)

    def given_up(done: asyncio.Future[Struct | None]) -> None:
        if done.cancelled() and isinstance(reading, asyncio.Future):
            reading.cancel()  # the client has disconnected; its acknowledgements are still stored

    future.add_done_callback(given_up)
    for part in waiting:
        part.add_done_callback(one_more)
    return future
