"""Describes and changes configurations of topics, brokers, groups and client metrics, and log
levels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.client.client import ANY, ClusterClient, Target, ToBroker, ToController
from headrace.client.errors import UnsupportedByBroker, check_error_code
from headrace.client.results import Refusal, moved, refusal, refused
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from headrace.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_WITH_TYPES: Final = 1  # the first version of ListConfigResources that lists other kinds


class ResourceKind(IntEnum):
    """Kafka's codes for config resource types."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Kafka's codes for the source of a value."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource with a configuration; the broker named "" is the default of all brokers."""

    kind: ResourceKind
    name: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting; a sensitive value is None."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one setting."""

    name: str
    operation: Operation
    value: str | None = None


_OF_BROKERS = (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER)


async def describe_configs(
    client: ClusterClient,
    resources: Sequence[Resource],
    *,
    timeout_s: float,
    names: Sequence[str] | None = None,
) -> dict[Resource, list[ConfigEntry] | Refusal]:
    """The settings of each resource sorted by name: all of them, or those in `names`."""
    found: dict[Resource, list[ConfigEntry] | Refusal] = {}
    for target, wanted in _by_target(resources).items():
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.kind,
                    resource_name=resource.name,
                    configuration_keys=None if names is None else list(names),
                )
                for resource in wanted
            ]
        )
        answer = await client.send(request, DescribeConfigsResponse, to=target, timeout_s=timeout_s)
        for result in answer.results:
            resource = Resource(ResourceKind(result.resource_type), result.resource_name)
            found[resource] = (
                refused(result.error_code, result.error_message)
                if result.error_code
                else sorted(
                    (_config_entry(each) for each in result.configs), key=lambda one: one.name
                )
            )
    return found


async def list_config_resources(
    client: ClusterClient, kind: ResourceKind, *, timeout_s: float
) -> list[str]:
    """The sorted names of resources with a configuration.

    Brokers before Kafka 4.1 list subscriptions to client metrics only.
    """
    answer = await client.send(
        ListConfigResourcesRequest(resource_types=[kind]),
        ListConfigResourcesResponse,
        timeout_s=timeout_s,
        at_least=0 if kind is ResourceKind.CLIENT_METRICS else _WITH_TYPES,
    )
    check_error_code(answer.error_code, "cannot list resources")
    return sorted(each.resource_name for each in answer.config_resources)


async def accepts_client_metrics(client: ClusterClient, *, timeout_s: float) -> bool:
    """Whether a broker has a receiver for the metrics that clients push (KIP-714)."""
    try:
        answer = await client.send(
            GetTelemetrySubscriptionsRequest(),
            GetTelemetrySubscriptionsResponse,
            timeout_s=timeout_s,
        )
    except UnsupportedByBroker:
        return False
    return answer.error_code == 0


def _config_entry(result: DescribeConfigsResourceResult) -> ConfigEntry:
    known = {int(source): source for source in ConfigSource}
    return ConfigEntry(
        name=result.name,
        value=result.value,
        source=known.get(result.config_source, ConfigSource.UNKNOWN),
        read_only=result.read_only,
        sensitive=result.is_sensitive,
    )


async def alter_configs(
    client: ClusterClient,
    changes: Mapping[Resource, Sequence[ConfigChange]],
    *,
    timeout_s: float,
    validate_only: bool = False,
) -> dict[Resource, Refusal | None]:
    """Applies the changes; those of one resource are applied together or not at all."""
    done: dict[Resource, Refusal | None] = {}
    for target, wanted in _by_target(list(changes), fallback=ToController()).items():
        request = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsAlterConfigsResource(
                    resource_type=resource.kind,
                    resource_name=resource.name,
                    configs=[
                        IncrementalAlterConfigsAlterableConfig(
                            name=each.name, config_operation=each.operation, value=each.value
                        )
                        for each in changes[resource]
                    ],
                )
                for resource in wanted
            ],
            validate_only=validate_only,
        )
        answer = await client.send(
            request,
            IncrementalAlterConfigsResponse,
            to=target,
            timeout_s=timeout_s,
            code_of=lambda got: moved(each.error_code for each in got.responses),
        )
        for result in answer.responses:
            resource = Resource(ResourceKind(result.resource_type), result.resource_name)
            done[resource] = refusal(result.error_code, result.error_message)
    return done


def _by_target(
    resources: Sequence[Resource], fallback: Target = ANY
) -> dict[Target, list[Resource]]:
    """Groups resources by target: a broker's settings go to that broker, all others to
    `fallback`."""
    grouped: dict[Target, list[Resource]] = {}
    for resource in resources:
        own = resource.kind in _OF_BROKERS and resource.name.isdecimal()
        target: Target = ToBroker(int(resource.name)) if own else fallback
        grouped.setdefault(target, []).append(resource)
    return grouped
