"""The APIs that a Kafka 4.3 broker serves on its client listener, and their stable versions.

After them come the APIs between the brokers of a cluster, which ApiVersions does not list. Keys
from 10,000 on are Headrace's own.

The message classes of an API are imported on first use, so importing this module is cheap.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Final

from headrace.protocol.struct import MAX_VERSION, Struct

NEVER: Final = MAX_VERSION + 1
"""The `flexible_since` of an API without flexible versions."""


class ApiKey(IntEnum):
    """The API key, which a request starts with."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    ALTER_PARTITION = 56
    ENVELOPE = 58
    ALLOCATE_PRODUCER_IDS = 67
    CLUSTER_METADATA = 10_000
    LEAVE_CLUSTER = 10_001


@dataclass(frozen=True)
class ApiSpec:
    """One API: the supported versions and its two messages."""

    key: ApiKey
    name: str
    """Kafka's name, e.g. `ListOffsets`."""
    min_version: int
    max_version: int
    advertised_min: int
    """The first version in ApiVersions; lower than `min_version` for Produce only."""
    flexible_since: int
    for_members: bool = False
    """Whether only the brokers of the cluster use the API."""

    def serves(self, version: int) -> bool:
        """Whether requests of this version are supported."""
        return self.min_version <= version <= self.max_version

    def request_header_version(self, version: int) -> int:
        """The version of the header of a request of this version."""
        return 2 if version >= self.flexible_since else 1

    def response_header_version(self, version: int) -> int:
        """The version of the header of a response of this version."""
        # A client that sends ApiVersions does not know the broker's versions yet (KIP-511).
        if self.key == ApiKey.API_VERSIONS:
            return 0
        return 1 if version >= self.flexible_since else 0

    @cached_property
    def request(self) -> type[Struct]:
        """The class of the request, e.g. `FetchRequest`."""
        return self._message_class("Request")

    @cached_property
    def response(self) -> type[Struct]:
        """The class of the response, e.g. `FetchResponse`."""
        return self._message_class("Response")

    def _message_class(self, suffix: str) -> type[Struct]:
        module = import_module(f"headrace.protocol.messages.{self.key.name.lower()}")
        found: type[Struct] = getattr(module, self.name + suffix)
        return found


# Key, first and last stable version, first flexible version.
_TABLE: Final = (
    (ApiKey.PRODUCE, 3, 13, 9),
    (ApiKey.FETCH, 4, 18, 12),
    (ApiKey.LIST_OFFSETS, 1, 11, 6),
    (ApiKey.METADATA, 0, 13, 9),
    (ApiKey.OFFSET_COMMIT, 2, 10, 8),
    (ApiKey.OFFSET_FETCH, 1, 10, 6),
    (ApiKey.FIND_COORDINATOR, 0, 6, 3),
    (ApiKey.JOIN_GROUP, 0, 9, 6),
    (ApiKey.HEARTBEAT, 0, 4, 4),
    (ApiKey.LEAVE_GROUP, 0, 5, 4),
    (ApiKey.SYNC_GROUP, 0, 5, 4),
    (ApiKey.DESCRIBE_GROUPS, 0, 6, 5),
    (ApiKey.LIST_GROUPS, 0, 5, 3),
    (ApiKey.SASL_HANDSHAKE, 0, 1, NEVER),
    (ApiKey.API_VERSIONS, 0, 4, 3),
    (ApiKey.CREATE_TOPICS, 2, 7, 5),
    (ApiKey.DELETE_TOPICS, 1, 6, 4),
    (ApiKey.DELETE_RECORDS, 0, 2, 2),
    (ApiKey.INIT_PRODUCER_ID, 0, 5, 2),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, 4),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, 3),
    (ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, 3),
    (ApiKey.END_TXN, 0, 5, 3),
    (ApiKey.WRITE_TXN_MARKERS, 1, 2, 1),
    (ApiKey.TXN_OFFSET_COMMIT, 0, 5, 3),
    (ApiKey.DESCRIBE_ACLS, 1, 3, 2),
    (ApiKey.CREATE_ACLS, 1, 3, 2),
    (ApiKey.DELETE_ACLS, 1, 3, 2),
    (ApiKey.DESCRIBE_CONFIGS, 1, 4, 4),
    (ApiKey.ALTER_CONFIGS, 0, 2, 2),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, 2),
    (ApiKey.DESCRIBE_LOG_DIRS, 1, 5, 2),
    (ApiKey.SASL_AUTHENTICATE, 0, 2, 2),
    (ApiKey.CREATE_PARTITIONS, 0, 3, 2),
    (ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, 2),
    (ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, 2),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, 2),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, 2),
    (ApiKey.DELETE_GROUPS, 0, 2, 2),
    (ApiKey.ELECT_LEADERS, 0, 2, 2),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, 0),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0),
    (ApiKey.OFFSET_DELETE, 0, 0, NEVER),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1),
    (ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, 1),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0),
    (ApiKey.DESCRIBE_QUORUM, 0, 2, 0),
    (ApiKey.UPDATE_FEATURES, 0, 2, 0),
    (ApiKey.DESCRIBE_CLUSTER, 0, 2, 0),
    (ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0),
    (ApiKey.UNREGISTER_BROKER, 0, 0, 0),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, 0),
    (ApiKey.LIST_TRANSACTIONS, 0, 2, 0),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, 0),
    (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, 0),
    (ApiKey.PUSH_TELEMETRY, 0, 0, 0),
    (ApiKey.LIST_CONFIG_RESOURCES, 0, 1, 0),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, 0),
    (ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, 0),
    (ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, 0),
    (ApiKey.SHARE_FETCH, 1, 2, 0),
    (ApiKey.SHARE_ACKNOWLEDGE, 1, 2, 0),
    (ApiKey.ADD_RAFT_VOTER, 0, 1, 0),
    (ApiKey.REMOVE_RAFT_VOTER, 0, 0, 0),
    (ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, 0),
    (ApiKey.READ_SHARE_GROUP_STATE, 0, 0, 0),
    (ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, 0),
    (ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, 0),
    (ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1, 0),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0, 0),
    (ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0, 0),
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, 0),
    (ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, 0),
    (ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, 0),
)

_MEMBERS_TABLE: Final = (
    (ApiKey.ALTER_PARTITION, 2, 3, 0),
    (ApiKey.ENVELOPE, 0, 0, 0),
    (ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, 0),
    (ApiKey.CLUSTER_METADATA, 0, 0, 0),
    (ApiKey.LEAVE_CLUSTER, 0, 0, 0),
)


def _spec(
    key: ApiKey, first: int, last: int, flexible_since: int, *, for_members: bool = False
) -> ApiSpec:
    name = "".join(word.capitalize() for word in key.name.split("_"))
    # librdkafka silently disables compression unless Produce is advertised from 0 (KAFKA-18659).
    advertised_min = 0 if key == ApiKey.PRODUCE else first
    return ApiSpec(key, name, first, last, advertised_min, flexible_since, for_members)


APIS: Final[Mapping[ApiKey, ApiSpec]] = MappingProxyType(
    {row[0]: _spec(*row) for row in _TABLE}
    | {row[0]: _spec(*row, for_members=True) for row in _MEMBERS_TABLE}
)
"""Every supported API by its key; a plain int works as a key too."""
