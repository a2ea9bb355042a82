"""The handler of each API, with its access rule."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.broker.access.access_rule import FREE, AccessRule, cluster, resources
from headrace.protocol.api import ApiKey
from headrace.security.authorization.acl import AclOperation, AclResourceType

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
CREATE_TOKENS: Final = AclOperation.CREATE_TOKENS
DESCRIBE_TOKENS: Final = AclOperation.DESCRIBE_TOKENS

TOPIC: Final = AclResourceType.TOPIC
GROUP: Final = AclResourceType.GROUP
CLUSTER: Final = AclResourceType.CLUSTER
TRANSACTIONAL_ID: Final = AclResourceType.TRANSACTIONAL_ID
DELEGATION_TOKEN: Final = AclResourceType.DELEGATION_TOKEN
USER: Final = AclResourceType.USER


class Handler(NamedTuple):
    """A module of `headrace.broker.handlers`, which is imported at the first request."""

    module: str
    access: AccessRule


HANDLERS: Final[Mapping[ApiKey, Handler]] = {
    ApiKey.PRODUCE: Handler("produce", resources((WRITE, TRANSACTIONAL_ID), (WRITE, TOPIC))),
    ApiKey.FETCH: Handler("fetch", resources((READ, TOPIC), (CLUSTER_ACTION, CLUSTER))),
    ApiKey.LIST_OFFSETS: Handler("list_offsets", resources((DESCRIBE, TOPIC))),
    ApiKey.METADATA: Handler(
        "metadata", resources((DESCRIBE, TOPIC), (CREATE, CLUSTER), (CREATE, TOPIC))
    ),
    ApiKey.OFFSET_COMMIT: Handler("offset_commit", resources((READ, GROUP), (READ, TOPIC))),
    ApiKey.OFFSET_FETCH: Handler("offset_fetch", resources((DESCRIBE, GROUP), (DESCRIBE, TOPIC))),
    ApiKey.FIND_COORDINATOR: Handler(
        "find_coordinator",
        resources((DESCRIBE, GROUP), (DESCRIBE, TRANSACTIONAL_ID), (CLUSTER_ACTION, CLUSTER)),
    ),
    ApiKey.JOIN_GROUP: Handler("join_group", resources((READ, GROUP))),
    ApiKey.HEARTBEAT: Handler("heartbeat", resources((READ, GROUP))),
    ApiKey.LEAVE_GROUP: Handler("leave_group", resources((READ, GROUP))),
    ApiKey.SYNC_GROUP: Handler("sync_group", resources((READ, GROUP))),
    ApiKey.DESCRIBE_GROUPS: Handler("describe_groups", resources((DESCRIBE, GROUP))),
    ApiKey.LIST_GROUPS: Handler("list_groups", resources((DESCRIBE, CLUSTER), (DESCRIBE, GROUP))),
    ApiKey.SASL_HANDSHAKE: Handler("sasl_handshake", FREE),
    ApiKey.API_VERSIONS: Handler("api_versions", FREE),
    ApiKey.CREATE_TOPICS: Handler(
        "create_topics", resources((CREATE, CLUSTER), (CREATE, TOPIC), (DESCRIBE_CONFIGS, TOPIC))
    ),
    ApiKey.DELETE_TOPICS: Handler(
        "delete_topics", resources((DELETE, CLUSTER), (DELETE, TOPIC), (DESCRIBE, TOPIC))
    ),
    ApiKey.DELETE_RECORDS: Handler("delete_records", resources((DELETE, TOPIC))),
    ApiKey.INIT_PRODUCER_ID: Handler(
        "init_producer_id",
        resources((WRITE, TRANSACTIONAL_ID), (IDEMPOTENT_WRITE, CLUSTER), (WRITE, TOPIC)),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Handler(
        "add_partitions_to_txn",
        resources((WRITE, TRANSACTIONAL_ID), (WRITE, TOPIC), (CLUSTER_ACTION, CLUSTER)),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Handler(
        "add_offsets_to_txn", resources((WRITE, TRANSACTIONAL_ID), (READ, GROUP))
    ),
    ApiKey.END_TXN: Handler("end_txn", resources((WRITE, TRANSACTIONAL_ID))),
    ApiKey.WRITE_TXN_MARKERS: Handler("write_txn_markers", cluster(ALTER, CLUSTER_ACTION)),
    ApiKey.DESCRIBE_TRANSACTIONS: Handler(
        "describe_transactions", resources((DESCRIBE, TRANSACTIONAL_ID), (DESCRIBE, TOPIC))
    ),
    ApiKey.LIST_TRANSACTIONS: Handler("list_transactions", resources((DESCRIBE, TRANSACTIONAL_ID))),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Handler(
        "offset_for_leader_epoch", resources((DESCRIBE, TOPIC), (CLUSTER_ACTION, CLUSTER))
    ),
    ApiKey.TXN_OFFSET_COMMIT: Handler(
        "txn_offset_commit", resources((WRITE, TRANSACTIONAL_ID), (READ, GROUP), (READ, TOPIC))
    ),
    ApiKey.DESCRIBE_ACLS: Handler("describe_acls", cluster(DESCRIBE)),
    ApiKey.CREATE_ACLS: Handler("create_acls", cluster(ALTER)),
    ApiKey.DELETE_ACLS: Handler("delete_acls", cluster(ALTER)),
    ApiKey.DESCRIBE_CONFIGS: Handler(
        "describe_configs",
        resources(
            (DESCRIBE_CONFIGS, TOPIC), (DESCRIBE_CONFIGS, GROUP), (DESCRIBE_CONFIGS, CLUSTER)
        ),
    ),
    ApiKey.ALTER_CONFIGS: Handler(
        "alter_configs",
        resources((ALTER_CONFIGS, TOPIC), (ALTER_CONFIGS, GROUP), (ALTER_CONFIGS, CLUSTER)),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Handler("alter_replica_log_dirs", cluster(ALTER)),
    ApiKey.DESCRIBE_LOG_DIRS: Handler("describe_log_dirs", cluster(DESCRIBE)),
    ApiKey.SASL_AUTHENTICATE: Handler("sasl_authenticate", FREE),
    ApiKey.CREATE_PARTITIONS: Handler("create_partitions", resources((ALTER, TOPIC))),
    ApiKey.CREATE_DELEGATION_TOKEN: Handler(
        "create_delegation_token", resources((CREATE_TOKENS, USER))
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: Handler("renew_delegation_token", FREE),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Handler("expire_delegation_token", FREE),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Handler(
        "describe_delegation_token",
        resources((DESCRIBE, DELEGATION_TOKEN), (DESCRIBE_TOKENS, USER)),
    ),
    ApiKey.DELETE_GROUPS: Handler("delete_groups", resources((DELETE, GROUP))),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Handler(
        "incremental_alter_configs",
        resources((ALTER_CONFIGS, TOPIC), (ALTER_CONFIGS, GROUP), (ALTER_CONFIGS, CLUSTER)),
    ),
    ApiKey.OFFSET_DELETE: Handler("offset_delete", resources((DELETE, GROUP), (READ, TOPIC))),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Handler("describe_client_quotas", cluster(DESCRIBE_CONFIGS)),
    ApiKey.ALTER_CLIENT_QUOTAS: Handler("alter_client_quotas", cluster(ALTER_CONFIGS)),
    ApiKey.UPDATE_FEATURES: Handler("update_features", cluster(ALTER)),
    ApiKey.DESCRIBE_CLUSTER: Handler("describe_cluster", resources((DESCRIBE, CLUSTER))),
    ApiKey.DESCRIBE_PRODUCERS: Handler("describe_producers", resources((READ, TOPIC))),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Handler(
        "consumer_group_heartbeat", resources((READ, GROUP), (DESCRIBE, TOPIC))
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Handler(
        "consumer_group_describe", resources((DESCRIBE, GROUP), (DESCRIBE, TOPIC))
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Handler("get_telemetry_subscriptions", FREE),
    ApiKey.PUSH_TELEMETRY: Handler("push_telemetry", FREE),
    ApiKey.LIST_CONFIG_RESOURCES: Handler("list_config_resources", cluster(DESCRIBE_CONFIGS)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Handler(
        "describe_topic_partitions", resources((DESCRIBE, TOPIC))
    ),
    ApiKey.SHARE_FETCH: Handler("share_fetch", resources((READ, GROUP), (READ, TOPIC))),
    ApiKey.SHARE_ACKNOWLEDGE: Handler("share_acknowledge", resources((READ, GROUP), (READ, TOPIC))),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Handler(
        "initialize_share_group_state", cluster(CLUSTER_ACTION)
    ),
    ApiKey.READ_SHARE_GROUP_STATE: Handler("read_share_group_state", cluster(CLUSTER_ACTION)),
    ApiKey.WRITE_SHARE_GROUP_STATE: Handler("write_share_group_state", cluster(CLUSTER_ACTION)),
    ApiKey.DELETE_SHARE_GROUP_STATE: Handler("delete_share_group_state", cluster(CLUSTER_ACTION)),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Handler(
        "read_share_group_state_summary", cluster(CLUSTER_ACTION)
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: Handler(
        "share_group_heartbeat", resources((READ, GROUP), (DESCRIBE, TOPIC))
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: Handler(
        "share_group_describe", resources((DESCRIBE, GROUP), (DESCRIBE, TOPIC))
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Handler(
        "describe_share_group_offsets", resources((DESCRIBE, GROUP), (DESCRIBE, TOPIC))
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Handler(
        "alter_share_group_offsets", resources((READ, GROUP), (READ, TOPIC))
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Handler(
        "delete_share_group_offsets", resources((DELETE, GROUP), (READ, TOPIC))
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Handler(
        "describe_user_scram_credentials", cluster(DESCRIBE)
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Handler("alter_user_scram_credentials", cluster(ALTER)),
    ApiKey.ELECT_LEADERS: Handler("elect_leaders", cluster(ALTER)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Handler("alter_partition_reassignments", cluster(ALTER)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Handler("list_partition_reassignments", cluster(DESCRIBE)),
    ApiKey.UNREGISTER_BROKER: Handler("unregister_broker", cluster(ALTER)),
    ApiKey.ENVELOPE: Handler("envelope", cluster(CLUSTER_ACTION)),
    ApiKey.ALTER_PARTITION: Handler("alter_partition", cluster(CLUSTER_ACTION)),
    ApiKey.ALLOCATE_PRODUCER_IDS: Handler("allocate_producer_ids", cluster(CLUSTER_ACTION)),
    ApiKey.CLUSTER_METADATA: Handler("cluster_metadata", cluster(CLUSTER_ACTION)),
    ApiKey.LEAVE_CLUSTER: Handler("leave_cluster", cluster(CLUSTER_ACTION)),
}

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    }
)
"""APIs that clients send to any broker and only the controller decides."""
