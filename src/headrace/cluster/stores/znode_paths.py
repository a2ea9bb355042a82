"""The paths of Kafka's znodes, and of Headrace's own below /headrace. Pure."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from headrace.cluster.resources import ConfigResource, ConfigResourceType
from headrace.security.authorization.acl import AclResourceType, PatternType

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
BROKER_SEQUENCE: Final = "/brokers/seqid"
"""Its version is the last number generated for a broker without an id."""
DELETE_TOPICS: Final = "/admin/delete_topics"
PRODUCER_IDS: Final = "/latest_producer_id_block"
FEATURES: Final = "/feature"
COMMITS: Final = "/headrace/commits"
RECORDED_BROKERS: Final = "/headrace/brokers"

CONFIG_TYPES: Final[Mapping[ConfigResourceType, str]] = {
    ConfigResourceType.TOPIC: "/config/topics",
    ConfigResourceType.BROKER: "/config/brokers",
    ConfigResourceType.BROKER_LOGGER: "/config/broker-loggers",
    ConfigResourceType.CLIENT_METRICS: "/config/client-metrics",
    ConfigResourceType.GROUP: "/config/groups",
}
DEFAULT_ENTITY: Final = "<default>"

USERS: Final = "/config/users"
CLIENT_QUOTAS: Final = "/config/clients"
IP_QUOTAS: Final = "/config/ips"
DELEGATION_TOKENS: Final = "/delegation_token/tokens"

ACL_ROOTS: Final[Mapping[PatternType, str]] = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
ACL_TYPES: Final[Mapping[AclResourceType, str]] = {
    AclResourceType.TOPIC: "Topic",
    AclResourceType.GROUP: "Group",
    AclResourceType.CLUSTER: "Cluster",
    AclResourceType.TRANSACTIONAL_ID: "TransactionalId",
    AclResourceType.DELEGATION_TOKEN: "DelegationToken",
    AclResourceType.USER: "User",
}
"""The parent of the ACLs of each type of resource, below each of `ACL_ROOTS`."""

SENSITIVE_PATHS: Final = (USERS, "/config/brokers", "/delegation_token")
"""Paths that may contain secrets: with ACLs on, only their owner may read them."""

SKELETON: Final[Mapping[str, bytes]] = {
    "/brokers": b"",
    BROKER_IDS: b"",
    TOPICS: b"",
    "/cluster": b"",
    "/config": b"",
    **dict.fromkeys(CONFIG_TYPES.values(), b""),
    USERS: b"",
    CLIENT_QUOTAS: b"",
    IP_QUOTAS: b"",
    "/config/changes": b"",
    "/admin": b"",
    DELETE_TOPICS: b"",
    CONTROLLER_EPOCH: b"0",
    ACL_ROOTS[PatternType.LITERAL]: b"",
    "/kafka-acl-extended": b"",
    ACL_ROOTS[PatternType.PREFIXED]: b"",
    **{f"{root}/{name}": b"" for root in ACL_ROOTS.values() for name in ACL_TYPES.values()},
    "/delegation_token": b"",
    DELEGATION_TOKENS: b"",
    "/headrace": b"",
    RECORDED_BROKERS: b"",
    COMMITS: b'{"version":1,"controller_epoch":0,"commits":0}',
}
"""The znodes of every cluster, parents first, with their initial data."""


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def recorded_broker_path(broker_id: int) -> str:
    return f"{RECORDED_BROKERS}/{broker_id}"


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, index: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{index}"


def state_path(topic: str, index: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{index}/state"


def deletion_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def config_path(resource: ConfigResource) -> str:
    return f"{CONFIG_TYPES[resource.type]}/{_entity_name(resource.name)}"


def config_resource(type_: ConfigResourceType, child: str) -> ConfigResource:
    """The resource of a znode below `CONFIG_TYPES[type_]`."""
    return ConfigResource(type_, "" if child == DEFAULT_ENTITY else unquote(child))


def _entity_name(name: str) -> str:
    if not name:
        return DEFAULT_ENTITY
    escaped = quote(name, safe="")
    # ZooKeeper treats these two as directories.
    return escaped.replace(".", "%2E") if escaped in (".", "..") else escaped
