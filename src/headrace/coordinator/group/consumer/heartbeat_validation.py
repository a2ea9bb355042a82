"""Validation of a ConsumerGroupHeartbeat, before the group is read."""

from collections.abc import Sequence
from typing import Final

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.consumer.member import STATIC_LEAVING_EPOCH
from headrace.coordinator.group.modern.modern_group import JOINING_EPOCH, LEAVING_EPOCH
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

FIRST_VERSION_WITH_CLIENT_IDS: Final = 1
"""From this version on the client generates its member id."""


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]
) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, with Kafka's messages."""
    epoch = request.member_epoch
    if version >= FIRST_VERSION_WITH_CLIENT_IDS or epoch > 0 or epoch == LEAVING_EPOCH:
        _check_not_blank(request.member_id, "MemberId can't be empty.")
    _check_not_blank(request.group_id, "GroupId can't be empty.")
    _check_not_blank(request.instance_id, "InstanceId can't be empty.")
    _check_not_blank(request.rack_id, "RackId can't be empty.")
    if epoch == JOINING_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVING_EPOCH:
        _check(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _check(epoch >= LEAVING_EPOCH, "MemberEpoch is invalid.")
    wanted = request.server_assignor
    if wanted is not None and wanted not in assignors:
        raise CoordinatorError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {wanted} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _check(
        request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request."
    )
    _check(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
    _check(
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    )


def _check_not_blank(text: str | None, message: str) -> None:
    _check(text is None or bool(text.strip()), message)


def _check(true: bool, message: str) -> None:
    if not true:
        raise CoordinatorError(ErrorCode.INVALID_REQUEST, message)
