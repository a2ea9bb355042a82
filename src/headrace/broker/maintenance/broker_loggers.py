"""BROKER_LOGGER resources: the log levels of this broker, described and changed while it runs.

As in Kafka, each broker answers for itself only, levels last until the broker stops, and only
IncrementalAlterConfigs changes them. A resource changes as a whole or not at all.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from headrace.broker.metadata.change_log import log_changes
from headrace.broker.network.dispatch import Answer, Context, Handle, Reply, resolve_reply
from headrace.cluster.configs.config_def import ConfigType
from headrace.cluster.effective_config import EffectiveEntry, EffectiveSource
from headrace.cluster.resources import ConfigResourceType
from headrace.controller.config_changes import AlterOperation, DescribedConfig
from headrace.controller.result import ApiError, Refused
from headrace.log_event import LogEvent
from headrace.log_levels import LEVELS, LOGGERS, ROOT, logger_levels, reset_level, set_level
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsAlterConfigsResourceResponse,
)

_RESOURCE: Final = ConfigResourceType.BROKER_LOGGER.name
_TYPE: Final = int(ConfigResourceType.BROKER_LOGGER)


# --- describing ---------------------------------------------------------------------------------


def describe_loggers(node_id: int, name: str, names: Collection[str] | None) -> DescribedConfig:
    """The loggers of the broker with this name, which must be this one, with their levels."""
    try:
        _check_described(node_id, name)
    except Refused as refused:
        return DescribedConfig(error=refused.error)
    return DescribedConfig(
        [
            EffectiveEntry(
                name=logger,
                value=level,
                source=EffectiveSource.DYNAMIC_BROKER_LOGGER_CONFIG,
                type=ConfigType.UNKNOWN,
                read_only=False,
                is_sensitive=False,
                synonyms=(),
                documentation="",
            )
            for logger, level in logger_levels()
            if names is None or logger in names
        ]
    )


def _check_described(node_id: int, name: str) -> None:
    if not name:
        raise _bad_request("Broker id must not be empty")
    id_ = _id_of(name)
    if id_ is None:
        raise _bad_request(f"Broker id must be an integer, but it is: {name}")
    if id_ != node_id:
        raise _bad_request(f"Unexpected broker id, expected {node_id} but received {name}")


# --- changing -----------------------------------------------------------------------------------


def wrap_handler(node_id: int, handle: Handle) -> Handle:
    """The handler of IncrementalAlterConfigs; this broker answers for its loggers itself."""

    def either(context: Context, request: Any) -> Reply:  # noqa: ANN401 - as its handler knows it
        own = [each for each in request.resources if each.resource_type == _TYPE]
        if not own:
            return handle(context, request)
        return _answer(node_id, handle, context, request, own)

    return either


async def _answer(
    node_id: int,
    handle: Handle,
    context: Context,
    request: Any,  # noqa: ANN401
    own: Sequence[IncrementalAlterConfigsAlterConfigsResource],
) -> Answer:
    request.resources = [each for each in request.resources if each.resource_type != _TYPE]
    names = [each.resource_name for each in own]
    answered = []
    for resource in own:
        error = ApiError(ErrorCode.NONE)
        try:
            if names.count(resource.resource_name) > 1:
                raise _bad_request("Each resource must appear at most once.")
            _check(node_id, resource)
            if not request.validate_only:
                changes = _change_levels(resource.configs)
                log_changes(context, ApiKey.INCREMENTAL_ALTER_CONFIGS, changes)
        except Refused as refused:
            error = refused.error
        answered.append(
            IncrementalAlterConfigsAlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    answer: Any = await resolve_reply(handle(context, request))
    answer.responses += answered
    return answer  # type: ignore[no-any-return]


def _check(node_id: int, resource: IncrementalAlterConfigsAlterConfigsResource) -> None:
    """Kafka's checks in Kafka's order; raises `Refused`."""
    changes = resource.configs
    if len({change.name for change in changes}) != len(changes):
        raise _bad_request("Error due to duplicate config keys")
    nulls = [
        change.name
        for change in changes
        if change.value is None and change.config_operation != AlterOperation.DELETE
    ]
    if nulls:
        raise _bad_request("Null value not supported for : " + ", ".join(nulls))
    id_ = _id_of(resource.resource_name)
    if id_ is None:
        raise _bad_request(f"Node id must be an integer, but it is: {resource.resource_name}")
    if id_ != node_id:
        raise _bad_request(f"Unexpected node id. Expected {node_id}, but received {id_}")
    for change in changes:
        _check_change(change)


def _check_change(change: IncrementalAlterConfigsAlterableConfig) -> None:
    match change.config_operation:
        case AlterOperation.SET:
            _check_exists(change.name)
            if change.value not in LEVELS:
                raise Refused(
                    ErrorCode.INVALID_CONFIG,
                    f"Cannot set the log level of {change.name} to {change.value} as it is not a "
                    f"supported log level. Valid log levels are {', '.join(sorted(LEVELS))}",
                )
        case AlterOperation.DELETE:
            _check_exists(change.name)
            if change.name == ROOT:
                raise _bad_request(f"Removing the log level of the {ROOT} logger is not allowed")
        case AlterOperation.APPEND | AlterOperation.SUBTRACT as operation:
            name = AlterOperation(operation).name
            raise _bad_request(f"{name} operation is not allowed for the {_RESOURCE} resource")
        case unknown:
            raise _bad_request(
                f"Unknown operation type {unknown} is not allowed for the {_RESOURCE} resource"
            )


def _check_exists(logger: str) -> None:
    if logger not in LOGGERS:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Logger {logger} does not exist!")


def _change_levels(changes: Sequence[IncrementalAlterConfigsAlterableConfig]) -> Iterator[LogEvent]:
    """Changes each level while its event is taken."""
    for change in changes:
        old = dict(logger_levels())[change.name]
        if change.config_operation == AlterOperation.SET:
            assert change.value is not None  # checked
            set_level(change.name, change.value)
        else:
            reset_level(change.name)
        fields = {"of": change.name, "old": old, "new": dict(logger_levels())[change.name]}
        yield LogEvent(logging.WARNING, "changed a log level", fields)


def _id_of(name: str) -> int | None:
    try:
        return int(name)
    except ValueError:
        return None


def _bad_request(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
