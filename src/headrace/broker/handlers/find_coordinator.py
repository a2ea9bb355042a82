"""FindCoordinator (key 10), versions 0-6: who coordinates a group, transaction or share key.

v1 adds transactions, v4 asks for many keys at once, v6 adds share partitions. One node
coordinates everything. The first question creates the internal topic of its kind, and is
answered when the coordinator can be used.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.dispatch import Context
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
TOPIC_ID_CHARS: Final = 22  # 16 bytes in base64 without padding
FIRST_VERSION_WITH_MANY_KEYS: Final = 4
FIRST_VERSION_WITH_SHARE: Final = 6


class _WithTopic(Protocol):
    """A coordinator, as far as this handler needs it."""

    @property
    def has_topic(self) -> bool: ...

    async def ensure_topic(self) -> None: ...


def handle(
    broker: Broker, context: Context, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Coroutine[object, object, FindCoordinatorResponse]:
    many = context.version >= FIRST_VERSION_WITH_MANY_KEYS
    keys = request.coordinator_keys if many else [request.key]
    found = [_find(broker, context, request.key_type, key) for key in keys]
    if any(not one.error_code for one in found):
        coordinator = _coordinators(broker)[request.key_type]
        if not coordinator.has_topic:
            return _create_then_answer(coordinator, many, found)
    return _answer(many, found)


def _coordinators(broker: Broker) -> dict[int, _WithTopic]:
    return {
        GROUP: broker.groups,
        TRANSACTION: broker.transactions,
        SHARE: broker.share_state,
    }


async def _create_then_answer(
    coordinator: _WithTopic, many: bool, found: Sequence[Coordinator]
) -> FindCoordinatorResponse:
    try:
        await coordinator.ensure_topic()
    except CoordinatorError as error:
        found = [
            one if one.error_code else _none(one.key, error.code, error.message) for one in found
        ]
    return _answer(many, found)


def _answer(many: bool, found: Sequence[Coordinator]) -> FindCoordinatorResponse:
    if many:
        return FindCoordinatorResponse(coordinators=list(found))
    one = found[0]
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(broker: Broker, context: Context, key_type: int, key: str) -> Coordinator:
    known = (
        (GROUP, TRANSACTION, SHARE)
        if context.version >= FIRST_VERSION_WITH_SHARE
        else (GROUP, TRANSACTION)
    )
    if key_type not in known:
        return _none(
            key, ErrorCode.INVALID_REQUEST, f"coordinator key type {key_type} is not known"
        )
    if key_type == SHARE and not _is_share_key(key):
        return _none(key, ErrorCode.INVALID_REQUEST, "a share key is group:topic-id:partition")
    node = broker.metadata.image.brokers[broker.node_id]
    endpoint = node.endpoint(context.connection.listener)
    if endpoint is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "no address on this listener")
    return Coordinator(key=key, node_id=node.broker_id, host=endpoint.host, port=endpoint.port)


def _is_share_key(key: str) -> bool:
    """Whether it names a partition of a share group: `group:topicId:partition`."""
    group, topic_id, partition = ["", "", *key.rsplit(":", 2)][-3:]
    return bool(group) and len(topic_id) == TOPIC_ID_CHARS and partition.isdecimal()


def _none(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
    )
