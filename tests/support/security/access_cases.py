"""What each API needs, as Kafka's documentation and its AuthorizerIntegrationTest say it.

This table is written by hand and does not use the broker's own table. A case is a request and the
rights that it needs, each with the error code of a client that lacks only this right.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.layout import Field, fields_of
from headrace.protocol.struct import Struct
from headrace.security.authorization.acl import CLUSTER_NAME, AclOperation, AclResourceType
from support.wire.batches import batch

TOPIC_NAME: Final = "orders"
DOOMED_TOPIC: Final = "doomed"
KEPT_TOPIC: Final = "kept"
GROUP_NAME: Final = "readers"
GROUP_WITH_OFFSETS: Final = "committed"
NO_GROUP: Final = "no-such-group"
SHARE_GROUP: Final = "share-group"
TRANSACTIONAL_ID: Final = "payments"
BROKER_ID: Final = 1

READ: Final = AclOperation.READ
WRITE: Final = AclOperation.WRITE
CREATE: Final = AclOperation.CREATE
DELETE: Final = AclOperation.DELETE
ALTER: Final = AclOperation.ALTER
DESCRIBE: Final = AclOperation.DESCRIBE
CLUSTER_ACTION: Final = AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS: Final = AclOperation.DESCRIBE_CONFIGS
ALTER_CONFIGS: Final = AclOperation.ALTER_CONFIGS
IDEMPOTENT_WRITE: Final = AclOperation.IDEMPOTENT_WRITE
NEWEST: Final = 99


class Need(NamedTuple):
    """A right, and the error code of a client that lacks it."""

    operation: AclOperation
    type: AclResourceType
    name: str
    code: ErrorCode


def topic(operation: AclOperation, name: str = TOPIC_NAME) -> Need:
    return Need(operation, AclResourceType.TOPIC, name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def group(operation: AclOperation, name: str = GROUP_NAME) -> Need:
    return Need(operation, AclResourceType.GROUP, name, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def transaction(operation: AclOperation) -> Need:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Need(operation, AclResourceType.TRANSACTIONAL_ID, TRANSACTIONAL_ID, code)


def cluster(
    operation: AclOperation, code: ErrorCode = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
) -> Need:
    return Need(operation, AclResourceType.CLUSTER, CLUSTER_NAME, code)


class Case(NamedTuple):
    """A request: the rights that it needs, and its fields apart from the usual values."""

    needs: tuple[Need, ...] = ()
    values: Mapping[str, Any] = {}
    first_version: int = 0
    last_version: int = NEWEST


def _case(*needs: Need, first: int = 0, last: int = NEWEST, **values: Any) -> Case:
    return Case(needs, values, first, last)


_T: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_IN_TRANSACTION: Final = {
    "records": batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
    "acks": 1,
}
_TO_BROKERS: Final = (_case(cluster(CLUSTER_ACTION)),)
_ALTER_CLUSTER: Final = (_case(cluster(ALTER)),)
_DESCRIBE_CLUSTER: Final = (_case(cluster(DESCRIBE)),)
_FREE: Final = (_case(),)

CASES: Final[Mapping[ApiKey, tuple[Case, ...]]] = {
    ApiKey.PRODUCE: (
        _case(topic(WRITE), transactional_id=None, records=batch(b"x"), acks=1),
        _case(transaction(WRITE), topic(WRITE), **_IN_TRANSACTION),
    ),
    ApiKey.FETCH: (
        _case(topic(READ), max_wait_ms=0, session_epoch=-1),
        _case(cluster(CLUSTER_ACTION, _T), replica_id=BROKER_ID, max_wait_ms=0, last=14),
    ),
    ApiKey.LIST_OFFSETS: (_case(topic(DESCRIBE), replica_id=-1),),
    ApiKey.METADATA: (
        _case(topic(DESCRIBE), topic_id=bytes(16), last=11),
        _case(topic(DESCRIBE), topic_id=bytes(16), first=12),
        _case(topic(DESCRIBE), name=None, first=12),
    ),
    ApiKey.OFFSET_COMMIT: (_case(group(READ), topic(READ)),),
    ApiKey.OFFSET_FETCH: (_case(group(DESCRIBE, NO_GROUP), topic(DESCRIBE), group_id=NO_GROUP),),
    ApiKey.FIND_COORDINATOR: (
        _case(group(DESCRIBE)),
        _case(
            transaction(DESCRIBE),
            key=TRANSACTIONAL_ID,
            coordinator_keys=[TRANSACTIONAL_ID],
            key_type=1,
            first=1,
        ),
        _case(
            cluster(CLUSTER_ACTION),
            coordinator_keys=[f"{GROUP_NAME}:AAAAAAAAAAAAAAAAAAAAAA:0"],
            key_type=2,
            first=6,
        ),
    ),
    ApiKey.JOIN_GROUP: (_case(group(READ)),),
    ApiKey.HEARTBEAT: (_case(group(READ)),),
    ApiKey.LEAVE_GROUP: (_case(group(READ)),),
    ApiKey.SYNC_GROUP: (_case(group(READ), protocol_type="consumer", protocol_name="range"),),
    ApiKey.DESCRIBE_GROUPS: (_case(group(DESCRIBE)),),
    ApiKey.LIST_GROUPS: _FREE,
    ApiKey.SASL_HANDSHAKE: _FREE,
    ApiKey.API_VERSIONS: _FREE,
    ApiKey.CREATE_TOPICS: (
        _case(topic(CREATE), num_partitions=1, replication_factor=1, assignments=[], configs=[]),
        _case(
            cluster(CREATE, _T),
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[],
        ),
    ),
    ApiKey.DELETE_TOPICS: (
        _case(
            topic(DELETE, DOOMED_TOPIC),
            name=DOOMED_TOPIC,
            topic_names=[DOOMED_TOPIC],
            topic_id=bytes(16),
        ),
        _case(
            cluster(DELETE, _T), name=DOOMED_TOPIC, topic_names=[DOOMED_TOPIC], topic_id=bytes(16)
        ),
    ),
    ApiKey.DELETE_RECORDS: (_case(topic(DELETE)),),
    ApiKey.INIT_PRODUCER_ID: (
        _case(transaction(WRITE), transaction_timeout_ms=1000),
        _case(cluster(IDEMPOTENT_WRITE), transactional_id=None),
        _case(
            topic(WRITE)._replace(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            transactional_id=None,
        ),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        _case(topic(DESCRIBE)),
        _case(cluster(CLUSTER_ACTION, _T)),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _case(transaction(WRITE), topic(WRITE), last=3),
        _case(cluster(CLUSTER_ACTION), first=4),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_case(transaction(WRITE), group(READ)),),
    ApiKey.END_TXN: (_case(transaction(WRITE)),),
    ApiKey.WRITE_TXN_MARKERS: (_case(cluster(ALTER)), _case(cluster(CLUSTER_ACTION))),
    ApiKey.TXN_OFFSET_COMMIT: (_case(transaction(WRITE), group(READ), topic(READ)),),
    ApiKey.DESCRIBE_ACLS: _DESCRIBE_CLUSTER,
    ApiKey.CREATE_ACLS: _ALTER_CLUSTER,
    ApiKey.DELETE_ACLS: _ALTER_CLUSTER,
    ApiKey.DESCRIBE_CONFIGS: (
        _case(topic(DESCRIBE_CONFIGS), configuration_keys=None),
        _case(group(DESCRIBE_CONFIGS), resource_type=32, resource_name=GROUP_NAME),
        _case(cluster(DESCRIBE_CONFIGS), resource_type=4, resource_name=str(BROKER_ID)),
    ),
    ApiKey.ALTER_CONFIGS: (
        _case(topic(ALTER_CONFIGS)),
        _case(cluster(ALTER_CONFIGS), resource_type=4, resource_name=str(BROKER_ID)),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _ALTER_CLUSTER,
    # Versions 1 and 2 have no field for the error: their response is empty.
    ApiKey.DESCRIBE_LOG_DIRS: (_case(cluster(DESCRIBE), first=3),),
    ApiKey.SASL_AUTHENTICATE: _FREE,
    ApiKey.CREATE_PARTITIONS: (_case(topic(ALTER), count=1, assignments=None),),
    ApiKey.CREATE_DELEGATION_TOKEN: _FREE,
    ApiKey.RENEW_DELEGATION_TOKEN: _FREE,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _FREE,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _FREE,
    ApiKey.DELETE_GROUPS: (_case(group(DELETE)),),
    ApiKey.ELECT_LEADERS: _ALTER_CLUSTER,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        _case(topic(ALTER_CONFIGS)),
        _case(group(ALTER_CONFIGS), resource_type=32, resource_name=GROUP_NAME),
        _case(cluster(ALTER_CONFIGS), resource_type=4, resource_name=str(BROKER_ID)),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_case(cluster(ALTER), replicas=[BROKER_ID]),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE_CLUSTER,
    ApiKey.OFFSET_DELETE: (
        _case(group(DELETE, GROUP_WITH_OFFSETS), topic(READ), group_id=GROUP_WITH_OFFSETS),
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (_case(cluster(DESCRIBE_CONFIGS)),),
    ApiKey.ALTER_CLIENT_QUOTAS: (_case(cluster(ALTER_CONFIGS)),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE_CLUSTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER_CLUSTER,
    ApiKey.ALTER_PARTITION: _TO_BROKERS,
    ApiKey.UPDATE_FEATURES: _ALTER_CLUSTER,
    ApiKey.ENVELOPE: _TO_BROKERS,
    ApiKey.DESCRIBE_CLUSTER: (_case(endpoint_type=1),),
    ApiKey.DESCRIBE_PRODUCERS: (_case(topic(READ)),),
    ApiKey.UNREGISTER_BROKER: (_case(cluster(ALTER), broker_id=99),),
    ApiKey.DESCRIBE_TRANSACTIONS: (_case(transaction(DESCRIBE)),),
    ApiKey.LIST_TRANSACTIONS: _FREE,
    ApiKey.ALLOCATE_PRODUCER_IDS: (_case(cluster(CLUSTER_ACTION), broker_id=99),),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        _case(
            group(READ),
            topic(DESCRIBE),
            member_epoch=0,
            rebalance_timeout_ms=1000,
            topic_partitions=[],
            server_assignor=None,
            subscribed_topic_regex=None,
        ),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (_case(group(DESCRIBE, NO_GROUP), group_ids=[NO_GROUP]),),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _FREE,
    ApiKey.PUSH_TELEMETRY: _FREE,
    ApiKey.LIST_CONFIG_RESOURCES: (_case(cluster(DESCRIBE_CONFIGS), resource_types=[]),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_case(topic(DESCRIBE), cursor=None),),
    ApiKey.SHARE_GROUP_HEARTBEAT: (_case(group(READ), topic(DESCRIBE), member_epoch=0),),
    ApiKey.SHARE_GROUP_DESCRIBE: (_case(group(DESCRIBE, NO_GROUP), group_ids=[NO_GROUP]),),
    ApiKey.SHARE_FETCH: (
        _case(
            group(READ),
            topic(READ),
            acknowledgement_batches=[],
            max_wait_ms=0,
            max_bytes=1 << 20,
            max_records=1,
        ),
    ),
    ApiKey.SHARE_ACKNOWLEDGE: (_case(group(READ)),),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _TO_BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE: _TO_BROKERS,
    ApiKey.WRITE_SHARE_GROUP_STATE: _TO_BROKERS,
    ApiKey.DELETE_SHARE_GROUP_STATE: _TO_BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _TO_BROKERS,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (_case(group(DESCRIBE), topic(DESCRIBE)),),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (
        _case(group(READ, SHARE_GROUP), topic(READ), group_id=SHARE_GROUP),
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (
        _case(group(DELETE, SHARE_GROUP), topic(READ), group_id=SHARE_GROUP),
    ),
    ApiKey.CLUSTER_METADATA: (_case(cluster(CLUSTER_ACTION), broker_id=99, max_wait_ms=0),),
    ApiKey.LEAVE_CLUSTER: (_case(cluster(CLUSTER_ACTION), broker_id=99),),
}

_USUAL: Final[Mapping[str, Any]] = {
    "name": TOPIC_NAME,
    "topic": TOPIC_NAME,
    "topic_name": TOPIC_NAME,
    "topic_names": [TOPIC_NAME],
    "subscribed_topic_names": [TOPIC_NAME],
    "resource_name": TOPIC_NAME,
    "resource_type": 2,
    "group_id": GROUP_NAME,
    "group_ids": [GROUP_NAME],
    "groups_names": [GROUP_NAME],
    "key": GROUP_NAME,
    "coordinator_keys": [GROUP_NAME],
    "member_id": "a-member",
    "timeout_ms": 5000,
    "transactional_id": TRANSACTIONAL_ID,
    "transactional_ids": [TRANSACTIONAL_ID],
    "v3_and_below_transactional_id": TRANSACTIONAL_ID,
}


def build_request(cls: type[Struct], version: int, case: Case, topic_id: bytes) -> Struct:
    """A request with one element in each array: the topic, partition 0, the group."""
    values = {**_USUAL, "topic_id": topic_id, **case.values}
    return _build(cls, version, values)


def _build(cls: type[Struct], version: int, values: Mapping[str, Any]) -> Struct:
    built = cls()
    for field in fields_of(cls):
        if not field.is_in(version) or field.options.tag is not None:
            continue
        if field.name in values:
            value = values[field.name]
            if value is None and not field.is_nullable_in(version):
                continue
            setattr(built, field.name, value)
        elif field.struct is not None:
            inner = _build(field.struct, version, values)
            setattr(built, field.name, [inner] if field.array else inner)
        elif field.array:
            setattr(built, field.name, [_element(field)])
    return built


def _element(field: Field) -> Any:
    """An element of an array of names or numbers: a group, or partition 0."""
    assert field.wire is not None
    return GROUP_NAME if field.wire.kind == "string" else 0
