"""FindCoordinator (key 10), versions 0-6: finds the coordinator of groups and transactions.

* v1: transactions.
* v4: many keys in one request.
* v6: share partitions.

A key belongs to a partition of an internal topic, and the leader of that partition is its
coordinator. The first request of each key type creates the internal topic; its response waits
until the coordinator is available.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.access.denied_codes import DENIED_CODE
from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.node import Broker

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
TOPIC_ID_CHARS: Final = 22  # 16 bytes in base64 without padding
FIRST_VERSION_WITH_MANY_KEYS: Final = 4
FIRST_VERSION_WITH_SHARE: Final = 6
_RESOURCE_TYPES: Final = {
    GROUP: AclResourceType.GROUP,
    TRANSACTION: AclResourceType.TRANSACTIONAL_ID,
}


class _CoordinatorHost(Protocol):
    """The part of a coordinator that this handler uses."""

    @property
    def has_topic(self) -> bool: ...

    async def ensure_topic(self) -> None: ...

    def leader_of(self, key: str) -> int: ...


def handle(
    broker: Broker, context: Context, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Coroutine[object, object, FindCoordinatorResponse]:
    many = context.version >= FIRST_VERSION_WITH_MANY_KEYS
    keys = request.coordinator_keys if many else [request.key]
    refused = [_key_error(broker, context, request.key_type, key) for key in keys]
    if all(refused):
        return _coordinator_response(many, [one for one in refused if one is not None])
    coordinator = _coordinators(broker)[request.key_type]
    if coordinator.has_topic:
        return _coordinator_response(
            many, _find_coordinators(broker, context, coordinator, keys, refused)
        )
    return _create_topic_then_find(broker, context, coordinator, keys, refused)


def _coordinators(broker: Broker) -> dict[int, _CoordinatorHost]:
    return {
        GROUP: broker.groups,
        TRANSACTION: broker.transactions,
        SHARE: broker.share_state,
    }


async def _create_topic_then_find(
    broker: Broker,
    context: Context,
    coordinator: _CoordinatorHost,
    keys: Sequence[str],
    refused: Sequence[Coordinator | None],
) -> FindCoordinatorResponse:
    many = context.version >= FIRST_VERSION_WITH_MANY_KEYS
    try:
        await coordinator.ensure_topic()
    except CoordinatorError as error:
        return _coordinator_response(
            many,
            [
                one or _not_found(key, error.code, error.message)
                for key, one in zip(keys, refused, strict=True)
            ],
        )
    return _coordinator_response(
        many, _find_coordinators(broker, context, coordinator, keys, refused)
    )


def _find_coordinators(
    broker: Broker,
    context: Context,
    coordinator: _CoordinatorHost,
    keys: Sequence[str],
    refused: Sequence[Coordinator | None],
) -> list[Coordinator]:
    return [
        one or _find_coordinator(broker, context, coordinator, key)
        for key, one in zip(keys, refused, strict=True)
    ]


def _coordinator_response(many: bool, found: Sequence[Coordinator]) -> FindCoordinatorResponse:
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


def _key_error(broker: Broker, context: Context, key_type: int, key: str) -> Coordinator | None:
    """The error response for a denied or invalid key; None if the key is valid."""
    denied = _denied_code(broker, context, key_type, key)
    if denied is not None:
        return _not_found(key, denied, None)
    known = (
        (GROUP, TRANSACTION, SHARE)
        if context.version >= FIRST_VERSION_WITH_SHARE
        else (GROUP, TRANSACTION)
    )
    if key_type not in known:
        return _not_found(
            key,
            ErrorCode.INVALID_REQUEST,
            f"unknown coordinator key type {key_type} for FindCoordinator v{context.version}",
        )
    if key_type == SHARE and not _is_share_key(key):
        return _not_found(
            key,
            ErrorCode.INVALID_REQUEST,
            "a share key must have the form group:topic-id:partition",
        )
    return None


def _denied_code(broker: Broker, context: Context, key_type: int, key: str) -> ErrorCode | None:
    access = broker.access
    if key_type == SHARE and context.version >= FIRST_VERSION_WITH_SHARE:
        type_ = AclResourceType.CLUSTER
        allowed = access.allows_cluster(context.session, AclOperation.CLUSTER_ACTION)
    elif key_type in _RESOURCE_TYPES:
        type_ = _RESOURCE_TYPES[key_type]
        allowed = access.allows(context.session, AclOperation.DESCRIBE, type_, key)
    else:
        return None
    return None if allowed else DENIED_CODE[type_]


def _find_coordinator(
    broker: Broker, context: Context, coordinator: _CoordinatorHost, key: str
) -> Coordinator:
    try:
        host = coordinator.leader_of(key)
    except CoordinatorError as error:
        return _not_found(key, error.code, error.message)
    node = broker.metadata.image.brokers.get(host)
    endpoint = None if node is None else node.endpoint(context.connection.listener)
    if endpoint is None:
        return _not_found(
            key,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"broker {host} has no endpoint on listener {context.connection.listener}",
        )
    return Coordinator(key=key, node_id=host, host=endpoint.host, port=endpoint.port)


def _is_share_key(key: str) -> bool:
    """Whether the key has the form of a share partition: `group:topicId:partition`."""
    group, topic_id, partition = ["", "", *key.rsplit(":", 2)][-3:]
    return bool(group) and len(topic_id) == TOPIC_ID_CHARS and partition.isdecimal()


def _not_found(key: str, error: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
    )
