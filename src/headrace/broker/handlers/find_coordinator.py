"""FindCoordinator (key 10), versions 0-6: who coordinates a group, transaction or share key.

v1 adds transactions, v4 asks for many keys at once, v6 adds share partitions. Whoever leads the
partition of the internal topic that a key belongs to coordinates it. The first question creates
the topic of its kind, and is answered when the coordinator can be used.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
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


class _Host(Protocol):
    """A coordinator, as far as this handler needs it."""

    @property
    def has_topic(self) -> bool: ...

    async def ensure_topic(self) -> None: ...

    def host_of(self, key: str) -> int: ...


def handle(
    broker: Broker, context: Context, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Coroutine[object, object, FindCoordinatorResponse]:
    many = context.version >= FIRST_VERSION_WITH_MANY_KEYS
    keys = request.coordinator_keys if many else [request.key]
    refused = [_refusal(context, request.key_type, key) for key in keys]
    if all(refused):
        return _answer(many, [one for one in refused if one is not None])
    coordinator = _coordinators(broker)[request.key_type]
    if coordinator.has_topic:
        return _answer(many, _find_all(broker, context, coordinator, keys, refused))
    return _create_then_answer(broker, context, coordinator, keys, refused)


def _coordinators(broker: Broker) -> dict[int, _Host]:
    return {
        GROUP: broker.groups,
        TRANSACTION: broker.transactions,
        SHARE: broker.share_state,
    }


async def _create_then_answer(
    broker: Broker,
    context: Context,
    coordinator: _Host,
    keys: Sequence[str],
    refused: Sequence[Coordinator | None],
) -> FindCoordinatorResponse:
    many = context.version >= FIRST_VERSION_WITH_MANY_KEYS
    try:
        await coordinator.ensure_topic()
    except CoordinatorError as error:
        return _answer(
            many,
            [
                one or _none(key, error.code, error.message)
                for key, one in zip(keys, refused, strict=True)
            ],
        )
    return _answer(many, _find_all(broker, context, coordinator, keys, refused))


def _find_all(
    broker: Broker,
    context: Context,
    coordinator: _Host,
    keys: Sequence[str],
    refused: Sequence[Coordinator | None],
) -> list[Coordinator]:
    return [
        one or _find(broker, context, coordinator, key)
        for key, one in zip(keys, refused, strict=True)
    ]


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


def _refusal(context: Context, key_type: int, key: str) -> Coordinator | None:
    """Why nobody can be asked about this key; None if somebody can."""
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
    return None


def _find(broker: Broker, context: Context, coordinator: _Host, key: str) -> Coordinator:
    try:
        host = coordinator.host_of(key)
    except CoordinatorError as error:
        return _none(key, error.code, error.message)
    node = broker.metadata.image.brokers.get(host)
    endpoint = None if node is None else node.endpoint(context.connection.listener)
    if endpoint is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "no address on this listener")
    return Coordinator(key=key, node_id=host, host=endpoint.host, port=endpoint.port)


def _is_share_key(key: str) -> bool:
    """Whether it names a partition of a share group: `group:topicId:partition`."""
    group, topic_id, partition = ["", "", *key.rsplit(":", 2)][-3:]
    return bool(group) and len(topic_id) == TOPIC_ID_CHARS and partition.isdecimal()


def _none(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
    )
