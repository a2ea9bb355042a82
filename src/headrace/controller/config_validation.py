"""Checks the whole configuration of a resource. Pure; raises `Refused` in Kafka's words."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from headrace.cluster.client_match import InvalidMatch, parse_match
from headrace.cluster.configs.catalog import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    base_name,
    broker_definition,
)
from headrace.cluster.configs.config_def import ConfigDef, InvalidConfig, UpdateMode
from headrace.cluster.effective_config import EffectiveConfig
from headrace.cluster.listener_settings import listener_prefix
from headrace.cluster.topic_names import name_problem
from headrace.controller.result import Refused
from headrace.protocol.errors import ErrorCode

MAX_VALUE_CHARS: Final = 32_767
"""Kafka's limit for one value."""

_TLS_STORES: Final = ("ssl.key.", "ssl.keystore.", "ssl.truststore.")
_CLUSTER_WIDE_LISTENER_SETTINGS: Final = (
    "max.connections",
    "max.connection.creation.rate",
    "num.network.threads",
)
_BOUNDED_GROUP_SETTINGS: Final = (
    ("consumer", "heartbeat.interval.ms"),
    ("consumer", "session.timeout.ms"),
    ("consumer", "assignment.interval.ms"),
    ("share", "heartbeat.interval.ms"),
    ("share", "session.timeout.ms"),
    ("share", "assignment.interval.ms"),
    ("share", "record.lock.duration.ms"),
    ("share", "delivery.count.limit"),
    ("share", "partition.max.record.locks"),
    ("streams", "heartbeat.interval.ms"),
    ("streams", "session.timeout.ms"),
    ("streams", "assignment.interval.ms"),
)
"""Group settings that must be between group.<kind>.min.<x> and group.<kind>.max.<x>."""


def check_topic_name(name: str) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    problem = name_problem(name)
    if problem is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def check_topic(configs: Mapping[str, str], effective: EffectiveConfig) -> None:
    """Checks that a topic's values have known names, are valid and do not contradict each other."""
    for name in sorted(configs):
        if name not in TOPIC:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    _check_values(configs, TOPIC.get, ErrorCode.INVALID_CONFIG)
    inherited = effective.topic_defaults
    lags = []
    for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"):
        value = TOPIC[name].parse(configs[name]) if name in configs else inherited[name]
        assert isinstance(value, int)
        lags.append(value)
    if lags[0] > lags[1]:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({lags[0]}) > "
            f"max.compaction.lag.ms ({lags[1]})",
        )
    if configs.get("remote.storage.enable", "").strip().lower() == "true":
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage.",
        )


def check_broker(configs: Mapping[str, str], *, one_broker: bool) -> None:
    """Checks the dynamic values of one broker or of all. As in Kafka, unknown names are kept."""
    _refuse_names(
        (
            name
            for name in configs
            if name in BROKER and BROKER[name].update_mode is UpdateMode.READ_ONLY
        ),
        "Cannot update these configs dynamically",
    )
    _refuse_names(
        (name for name in configs if name in BROKER and name.startswith(_TLS_STORES)),
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
    )
    _check_values(configs, broker_definition, ErrorCode.INVALID_REQUEST)
    if not one_broker:
        _refuse_names(
            (name for name in configs if _is_per_broker(name)),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def check_listener_changes(names: Collection[str], listeners: Iterable[str]) -> None:
    """Checks that of running listeners, only TLS stores and limits of connections change."""
    changeable = _CLUSTER_WIDE_LISTENER_SETTINGS
    for listener in listeners:
        prefix = listener_prefix(listener)
        for name in names:
            base = base_name(name)
            if not name.startswith(prefix) or base not in BROKER or base in changeable:
                continue
            if not base.startswith(_TLS_STORES):
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    "Configs cannot be updated dynamically for existing listener "
                    f"ListenerName({listener}), restart broker or create a new listener for update",
                )


def check_group(name: str, configs: Mapping[str, str], effective: EffectiveConfig) -> None:
    """Checks that a group's values are within the broker's bounds.

    The heartbeat interval must be shorter than the session timeout.
    """
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    for config in sorted(configs):
        if config not in GROUP:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {config}")
    _check_values(configs, GROUP.get, ErrorCode.INVALID_CONFIG)
    for kind, setting in _BOUNDED_GROUP_SETTINGS:
        text = configs.get(f"{kind}.{setting}")
        if text is not None:
            _check_bounds(kind, setting, int(text), effective)
    for kind in ("consumer", "share", "streams"):
        _check_heartbeat(kind, configs, effective)


def check_client_metrics(name: str, configs: Mapping[str, str]) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for config in sorted(configs):
        if config not in CLIENT_METRICS:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {config}"
            )
    _check_values(configs, CLIENT_METRICS.get, ErrorCode.INVALID_REQUEST)
    try:
        parse_match(configs.get("match", ""))
    except InvalidMatch as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_values(
    configs: Mapping[str, str], define: Callable[[str], ConfigDef | None], code: ErrorCode
) -> None:
    for name, value in configs.items():
        if len(value) > MAX_VALUE_CHARS:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value "
                f"size of {MAX_VALUE_CHARS} bytes.",
            )
        definition = define(name)
        if definition is None:
            continue
        try:
            definition.parse(value)
        except InvalidConfig as error:
            message = str(error)
            if definition.sensitive:
                message = f"Invalid value for configuration {name}: {error.reason}"
            raise Refused(code, message) from error


def _refuse_names(names: Iterable[str], reason: str) -> None:
    refused = list(names)
    if refused:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{reason}: [{', '.join(refused)}]")


def _is_per_broker(name: str) -> bool:
    base = base_name(name)
    if base != name:
        return base not in _CLUSTER_WIDE_LISTENER_SETTINGS
    definition = BROKER.get(name)
    return definition is not None and definition.update_mode is UpdateMode.PER_BROKER


def _check_bounds(kind: str, setting: str, value: int, effective: EffectiveConfig) -> None:
    low, high = f"group.{kind}.min.{setting}", f"group.{kind}.max.{setting}"
    smallest, largest = effective.broker_value(low), effective.broker_value(high)
    assert isinstance(smallest, int)
    assert isinstance(largest, int)
    if value < smallest:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"{kind}.{setting} must be greater than or equal to {low}",
        )
    if value > largest:
        raise Refused(
            ErrorCode.INVALID_CONFIG, f"{kind}.{setting} must be less than or equal to {high}"
        )


def _check_heartbeat(kind: str, configs: Mapping[str, str], effective: EffectiveConfig) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    if session not in configs and heartbeat not in configs:
        return
    values = [
        int(configs[name]) if name in configs else effective.broker_value(f"group.{name}")
        for name in (session, heartbeat)
    ]
    assert isinstance(values[0], int)
    assert isinstance(values[1], int)
    if values[0] <= values[1]:
        raise Refused(ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")
