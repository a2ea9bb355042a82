"""The resources that have a configuration, with their wire codes."""

from enum import IntEnum
from typing import NamedTuple


class ConfigResourceType(IntEnum):
    """Kafka's codes for config resource types."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One resource. A BROKER with the name "" is the default of the whole cluster."""

    type: ConfigResourceType
    name: str


CLUSTER_DEFAULT = ConfigResource(ConfigResourceType.BROKER, "")


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, name)


def broker_resource(broker_id: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker_id))
