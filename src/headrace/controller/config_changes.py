"""Changing and describing configurations: Kafka's checks in Kafka's order. Pure.

Each resource of a request succeeds or fails as a whole, independently of the others.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from random import Random, SystemRandom
from typing import Final, NamedTuple

from headrace.cluster.configs.catalog import BY_RESOURCE, broker_definition
from headrace.cluster.configs.config_def import ConfigDef, ConfigType
from headrace.cluster.effective_config import EffectiveConfig, EffectiveEntry
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import ConfigChanged, MetadataRecord
from headrace.cluster.resources import (
    CLUSTER_DEFAULT,
    ConfigResource,
    ConfigResourceType,
    broker_resource,
    topic_resource,
)
from headrace.cluster.stored_passwords import NoPasswordSecret, is_password, stored_password
from headrace.cluster.topic_names import name_problem
from headrace.controller.config_validation import (
    check_broker,
    check_client_metrics,
    check_group,
    check_listener_changes,
    check_topic,
    check_topic_name,
)
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from headrace.protocol.errors import ErrorCode
from headrace.security.password_encoder import NEEDS_CRYPTOGRAPHY


class AlterOperation(IntEnum):
    """The operations of IncrementalAlterConfigs, by their wire codes."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOp(NamedTuple):
    """One change of one value; `operation` is the unchecked code of the request."""

    name: str
    value: str | None
    operation: int = AlterOperation.SET


class ConfigAlteration(NamedTuple):
    """All changes of one resource; `resource_type` is the unchecked code of the request."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigOp]


class AlteredConfig(NamedTuple):
    """The result for one resource."""

    resource_type: int
    resource_name: str
    error: ApiError = NO_ERROR


class DescribedConfig(NamedTuple):
    """The settings of a resource, or an error."""

    entries: Sequence[EffectiveEntry] = ()
    error: ApiError = NO_ERROR


_ALTERABLE: Final = frozenset(BY_RESOURCE)


@dataclass(frozen=True, slots=True)
class ConfigControl:
    """Changes and describes configurations as one broker: its id and its static settings."""

    image: MetadataImage
    node_id: int
    static: Mapping[str, str]
    rng: Random = field(default_factory=SystemRandom)

    @property
    def effective(self) -> EffectiveConfig:
        return EffectiveConfig(self.static, self.node_id, self.image)

    def incremental_alter(
        self, alterations: Sequence[ConfigAlteration]
    ) -> ControllerResult[AlteredConfig]:
        """IncrementalAlterConfigs: set, delete, append, subtract."""
        return self._alter(alterations, incremental=True)

    def alter(self, alterations: Sequence[ConfigAlteration]) -> ControllerResult[AlteredConfig]:
        """AlterConfigs: a setting that the request does not name returns to its default."""
        return self._alter(alterations, incremental=False)

    def describe(
        self, resource_type: int, name: str, names: Collection[str] | None = None
    ) -> DescribedConfig:
        """DescribeConfigs of one resource; unknown names are left out."""
        try:
            return DescribedConfig(self._describe(resource_type, name, names))
        except Refused as refused:
            return DescribedConfig(error=refused.error)

    def resources(self, types: Collection[int]) -> list[ConfigResource]:
        """ListConfigResources: topics, brokers, and other resources that have configs."""
        wanted = set(types) or {int(type_) for type_ in ConfigResourceType}
        found: list[ConfigResource] = []
        if ConfigResourceType.TOPIC in wanted:
            found += map(topic_resource, self.image.topics)
        if ConfigResourceType.BROKER in wanted:
            found += map(broker_resource, self.image.brokers)
        if ConfigResourceType.BROKER_LOGGER in wanted:
            type_ = ConfigResourceType.BROKER_LOGGER
            found += (ConfigResource(type_, str(id_)) for id_ in self.image.brokers)
        wanted &= {ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS}
        found += [resource for resource in self.image.configs if resource.type in wanted]
        return sorted(found)

    # -- altering -------------------------------------------------------------------------------

    def _alter(
        self, alterations: Sequence[ConfigAlteration], *, incremental: bool
    ) -> ControllerResult[AlteredConfig]:
        times = Counter((item.resource_type, item.resource_name) for item in alterations)
        records: list[MetadataRecord] = []
        results: list[AlteredConfig] = []
        for item in alterations:
            error = NO_ERROR
            try:
                if times[item.resource_type, item.resource_name] > 1:
                    raise _bad_request("Each resource must appear at most once.")
                records += self._alter_resource(item, incremental)
            except Refused as refused:
                error = refused.error
            results.append(AlteredConfig(item.resource_type, item.resource_name, error))
        return ControllerResult(tuple(records), results)

    def _alter_resource(self, item: ConfigAlteration, incremental: bool) -> list[MetadataRecord]:
        _check_changes(item.changes, incremental)
        if item.resource_type not in _ALTERABLE:
            raise _bad_request(f"Unknown resource type {item.resource_type}")
        resource = ConfigResource(ConfigResourceType(item.resource_type), item.resource_name)
        if resource.type is ConfigResourceType.BROKER and resource != CLUSTER_DEFAULT:
            resource = self._broker_resource(resource.name)
        current = self.image.config(resource)
        if incremental:
            wanted = dict(current)
            for change in item.changes:
                _apply_change(resource.type, wanted, change)
        else:
            wanted = {change.name: change.value or "" for change in item.changes}
        changes = dict(_changed_values(current, wanted))
        # An unchanged password is encrypted, and its text can be longer than a value may be.
        self._check_configs(
            resource,
            {n: value for n, value in wanted.items() if n in changes or not is_password(n)},
        )
        if resource.type is ConfigResourceType.BROKER:
            check_listener_changes(changes, self._listeners(resource))
            changes = {name: self._stored_value(name, value) for name, value in changes.items()}
        return [ConfigChanged(resource, name, value) for name, value in changes.items()]

    def _listeners(self, resource: ConfigResource) -> set[str]:
        """The listeners of one broker, or of all."""
        brokers = self.image.brokers.values()
        return {
            endpoint.listener
            for broker in brokers
            if resource.name in ("", str(broker.broker_id))
            for endpoint in broker.endpoints
        }

    def _stored_value(self, name: str, value: str | None) -> str | None:
        if value is None or not is_password(name):
            return value
        try:
            return stored_password(value, self.static, self.rng)
        except NoPasswordSecret as error:
            raise _bad_request(str(error)) from error
        except ImportError:
            raise _bad_request(NEEDS_CRYPTOGRAPHY) from None

    def _broker_resource(self, name: str) -> ConfigResource:
        try:
            id_ = int(name)
        except ValueError:
            raise _bad_request(f"Node id must be an integer, but it is: {name}") from None
        if id_ != self.node_id and id_ not in self.image.brokers:
            raise _bad_request(
                f"Unexpected broker id, expected {self.node_id}, but received {name}"
            )
        return broker_resource(id_)

    def _check_configs(self, resource: ConfigResource, configs: Mapping[str, str]) -> None:
        match resource.type:
            case ConfigResourceType.TOPIC:
                check_topic_name(resource.name)
                check_topic(configs, self.effective)
                if resource.name not in self.image.topics:
                    raise Refused(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"The topic '{resource.name}' does not exist.",
                    )
            case ConfigResourceType.BROKER:
                check_broker(configs, one_broker=resource != CLUSTER_DEFAULT)
            case ConfigResourceType.GROUP:
                check_group(resource.name, configs, self.effective)
            case _:
                check_client_metrics(resource.name, configs)

    # -- describing -----------------------------------------------------------------------------

    def _describe(
        self, resource_type: int, name: str, names: Collection[str] | None
    ) -> list[EffectiveEntry]:
        effective = self.effective
        match resource_type:
            case ConfigResourceType.TOPIC:
                problem = name_problem(name)
                if problem is not None:
                    raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
                if name not in self.image.topics:
                    raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return effective.describe_topic(self.image.config(topic_resource(name)), names)
            case ConfigResourceType.BROKER:
                if not name:
                    return effective.describe_cluster_default(names)
                self._check_described_broker(name)
                return effective.describe_broker(names)
            case ConfigResourceType.GROUP:
                if not name:
                    raise _bad_request("Group name must not be empty")
                return effective.describe_group(name, names)
            case ConfigResourceType.CLIENT_METRICS:
                if not name:
                    raise _bad_request("Client metrics subscription name must not be empty")
                return effective.describe_client_metrics(name, names)
            case _:
                raise _bad_request(f"Unsupported resource type: {resource_type}")

    def _check_described_broker(self, name: str) -> None:
        try:
            id_ = int(name)
        except ValueError:
            raise _bad_request(f"Broker id must be an integer, but it is: {name}") from None
        if id_ != self.node_id:
            raise _bad_request(
                f"Unexpected broker id, expected {self.node_id} or empty string, but received "
                f"{name}"
            )


def _bad_request(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def _check_changes(changes: Sequence[ConfigOp], incremental: bool) -> None:
    """The checks that need no definition of a setting."""
    if len({change.name for change in changes}) != len(changes):
        raise _bad_request("Error due to duplicate config keys")
    nulls = [
        change.name
        for change in changes
        if change.value is None and not (incremental and change.operation == AlterOperation.DELETE)
    ]
    if nulls:
        raise _bad_request("Null value not supported for : " + ", ".join(nulls))
    for change in changes:
        if incremental and not 0 <= change.operation < len(AlterOperation):
            raise _bad_request(f"Unknown operations type {change.operation}")


def _apply_change(type_: ConfigResourceType, configs: dict[str, str], change: ConfigOp) -> None:
    match change.operation:
        case AlterOperation.SET:
            configs[change.name] = change.value or ""
        case AlterOperation.DELETE:
            configs.pop(change.name, None)
        case _:
            definition = _definition(type_, change.name)
            if definition is None or definition.type is not ConfigType.LIST:
                raise _not_a_list(type_, change)
            before = configs.get(change.name)
            items = _list_items(definition.default if before is None else before)
            changed = _list_items(change.value)
            if change.operation == AlterOperation.APPEND:
                items += [item for item in changed if item not in items]
            else:
                items = [item for item in items if item not in changed]
            configs[change.name] = ",".join(items)


def _definition(type_: ConfigResourceType, name: str) -> ConfigDef | None:
    if type_ is ConfigResourceType.BROKER:
        return broker_definition(name)
    return BY_RESOURCE[type_].get(name)


def _not_a_list(type_: ConfigResourceType, change: ConfigOp) -> Refused:
    operation = AlterOperation(change.operation).name
    if type_ is ConfigResourceType.BROKER:
        message = f"Config value {operation.lower()} is not allowed for config key: {change.name}"
    else:
        message = f"Can't {operation} to key {change.name} because its type is not LIST."
    return Refused(ErrorCode.INVALID_CONFIG, message)


def _list_items(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def _changed_values(
    before: Mapping[str, str], after: Mapping[str, str]
) -> Iterable[tuple[str, str | None]]:
    for name, value in after.items():
        if before.get(name) != value:
            yield name, value
    for name in before:
        if name not in after:
            yield name, None
