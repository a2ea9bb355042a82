"""The error codes that Kafka 4.3 puts on the wire, and the errors of this package.

`MalformedMessage` is the only exception that a reader raises, for any input.
"""

from enum import IntEnum

_RETRY = True
_FATAL = False


class ErrorCode(IntEnum):
    """Every error code, with its meaning and whether the same request may succeed later."""

    retriable: bool
    message: str

    def __new__(cls, code: int, retriable: bool, message: str) -> "ErrorCode":
        """Build one member."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.message = message
        return member

    UNKNOWN_SERVER_ERROR = -1, _FATAL, "An unexpected error occurred in the broker."
    NONE = 0, _FATAL, "No error."
    OFFSET_OUT_OF_RANGE = 1, _FATAL, "The log does not hold this offset."
    CORRUPT_MESSAGE = 2, _RETRY, "The batch is damaged: its checksum, size or layout is wrong."
    UNKNOWN_TOPIC_OR_PARTITION = 3, _RETRY, "This broker has no such topic or partition."
    INVALID_FETCH_SIZE = 4, _FATAL, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, _RETRY, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = (
        6,
        _RETRY,
        "This broker does not lead the partition, or has no replica.",
    )
    REQUEST_TIMED_OUT = 7, _RETRY, "The request timed out."
    BROKER_NOT_AVAILABLE = 8, _FATAL, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, _RETRY, "The requested replica is not available."
    MESSAGE_TOO_LARGE = 10, _FATAL, "The batch is larger than max.message.bytes allows."
    STALE_CONTROLLER_EPOCH = 11, _FATAL, "Another broker has become the controller."
    OFFSET_METADATA_TOO_LARGE = 12, _FATAL, "The text committed with the offset is too long."
    NETWORK_EXCEPTION = 13, _RETRY, "The connection ended before the response arrived."
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRY, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, _RETRY, "The coordinator is not available yet."
    NOT_COORDINATOR = 16, _RETRY, "Another broker coordinates this group or transactional id."
    INVALID_TOPIC_EXCEPTION = 17, _FATAL, "The topic name is not allowed here."
    RECORD_LIST_TOO_LARGE = 18, _FATAL, "The batches do not fit into one log segment."
    NOT_ENOUGH_REPLICAS = 19, _RETRY, "Fewer replicas are in sync than min.insync.replicas."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        _RETRY,
        "The records were appended, but fewer replicas are in sync than min.insync.replicas.",
    )
    INVALID_REQUIRED_ACKS = 21, _FATAL, "acks must be 0, 1 or -1."
    ILLEGAL_GENERATION = 22, _FATAL, "The group is in another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, _FATAL, "The member shares no protocol with the group."
    INVALID_GROUP_ID = 24, _FATAL, "The group id is not allowed."
    UNKNOWN_MEMBER_ID = 25, _FATAL, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, _FATAL, "The session timeout is outside the broker's bounds."
    REBALANCE_IN_PROGRESS = 27, _FATAL, "The group is rebalancing; join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, _FATAL, "The committed offset's data has a wrong size."
    TOPIC_AUTHORIZATION_FAILED = 29, _FATAL, "Not authorised for the topic."
    GROUP_AUTHORIZATION_FAILED = 30, _FATAL, "Not authorised for the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, _FATAL, "Not authorised for the cluster."
    INVALID_TIMESTAMP = 32, _FATAL, "A record's timestamp is too far from the broker's clock."
    UNSUPPORTED_SASL_MECHANISM = 33, _FATAL, "The SASL mechanism is not enabled."
    ILLEGAL_SASL_STATE = 34, _FATAL, "The SASL exchange does not allow this request now."
    UNSUPPORTED_VERSION = 35, _FATAL, "This version of the API is not supported."
    TOPIC_ALREADY_EXISTS = 36, _FATAL, "A topic with this name already exists."
    INVALID_PARTITIONS = 37, _FATAL, "The number of partitions is not allowed."
    INVALID_REPLICATION_FACTOR = 38, _FATAL, "The replication factor cannot be met."
    INVALID_REPLICA_ASSIGNMENT = 39, _FATAL, "The replica assignment is not valid."
    INVALID_CONFIG = 40, _FATAL, "The configuration is not valid."
    NOT_CONTROLLER = 41, _RETRY, "This broker is not the controller."
    INVALID_REQUEST = 42, _FATAL, "The request contradicts itself or breaks the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, _FATAL, "The message format does not allow this."
    POLICY_VIOLATION = 44, _FATAL, "A policy of this cluster forbids the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _FATAL, "The producer's sequence has a gap."
    DUPLICATE_SEQUENCE_NUMBER = 46, _FATAL, "The producer's sequence is a duplicate."
    INVALID_PRODUCER_EPOCH = 47, _FATAL, "The producer's epoch is old."
    INVALID_TXN_STATE = 48, _FATAL, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        _FATAL,
        "The producer id does not belong to this transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        _FATAL,
        "The transaction timeout is above transaction.max.timeout.ms.",
    )
    CONCURRENT_TRANSACTIONS = 51, _RETRY, "Another operation on this transaction is in progress."
    TRANSACTION_COORDINATOR_FENCED = 52, _FATAL, "A newer transaction coordinator is active."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _FATAL, "Not authorised for the transactional id."
    SECURITY_DISABLED = 54, _FATAL, "Security is not enabled on this cluster."
    OPERATION_NOT_ATTEMPTED = 55, _FATAL, "Not tried, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, _RETRY, "The disk that holds this log has failed."
    LOG_DIR_NOT_FOUND = 57, _FATAL, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, _FATAL, "Authentication failed."
    UNKNOWN_PRODUCER_ID = 59, _FATAL, "The producer id is unknown, or has expired."
    REASSIGNMENT_IN_PROGRESS = 60, _FATAL, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _FATAL, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, _FATAL, "No such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _FATAL, "The principal may not manage this token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        _FATAL,
        "This connection's authentication does not allow requests for delegation tokens.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _FATAL, "Not authorised for the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, _FATAL, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, _FATAL, "This type of principal is not supported."
    NON_EMPTY_GROUP = 68, _FATAL, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, _FATAL, "No such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRY, "No such fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRY, "The fetch session expects another epoch."
    LISTENER_NOT_FOUND = 72, _RETRY, "The leader has no listener with the name of this listener."
    TOPIC_DELETION_DISABLED = 73, _FATAL, "delete.topic.enable is off."
    FENCED_LEADER_EPOCH = 74, _RETRY, "The leader epoch in the request is old."
    UNKNOWN_LEADER_EPOCH = 75, _RETRY, "The broker does not know this leader epoch yet."
    UNSUPPORTED_COMPRESSION_TYPE = 76, _FATAL, "The client cannot read this codec."
    STALE_BROKER_EPOCH = 77, _FATAL, "The broker has registered again with a newer epoch."
    OFFSET_NOT_AVAILABLE = 78, _RETRY, "The new leader does not know its high watermark yet."
    MEMBER_ID_REQUIRED = 79, _FATAL, "Join again with the member id in the response."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _RETRY, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, _FATAL, "The group is full."
    FENCED_INSTANCE_ID = 82, _FATAL, "Another member uses this group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _RETRY, "No replica may become the leader."
    ELECTION_NOT_NEEDED = 84, _RETRY, "The partition needs no election."
    NO_REASSIGNMENT_IN_PROGRESS = 85, _FATAL, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _FATAL, "The group still subscribes to the topic."
    INVALID_RECORD = 87, _FATAL, "A record was refused."
    UNSTABLE_OFFSET_COMMIT = 88, _RETRY, "An open transaction may still change these offsets."
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRY, "The quota is used up; wait and try again."
    PRODUCER_FENCED = 90, _FATAL, "A newer producer uses this transactional id."
    RESOURCE_NOT_FOUND = 91, _FATAL, "No such resource."
    DUPLICATE_RESOURCE = 92, _FATAL, "The request contains a resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, _FATAL, "The credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, _FATAL, "Sender and receiver disagree on the set of voters."
    INVALID_UPDATE_VERSION = 95, _FATAL, "The new version of the feature is not valid."
    FEATURE_UPDATE_FAILED = 96, _FATAL, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, _FATAL, "The forwarded principal cannot be read."
    SNAPSHOT_NOT_FOUND = 98, _FATAL, "No such snapshot."
    POSITION_OUT_OF_RANGE = 99, _FATAL, "The snapshot has no such position."
    UNKNOWN_TOPIC_ID = 100, _RETRY, "This broker has no topic with this id."
    DUPLICATE_BROKER_REGISTRATION = 101, _FATAL, "Another broker uses this id."
    BROKER_ID_NOT_REGISTERED = 102, _FATAL, "No broker with this id is registered."
    INCONSISTENT_TOPIC_ID = 103, _RETRY, "The log belongs to a topic with another id."
    INCONSISTENT_CLUSTER_ID = 104, _FATAL, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, _FATAL, "No such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _RETRY, "The fetch session mixes topic ids and names."
    INELIGIBLE_REPLICA = 107, _FATAL, "A replica of the new ISR is not eligible."
    NEW_LEADER_ELECTED = 108, _FATAL, "The partition was changed, and another broker leads it now."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _FATAL, "The offset is in tiered storage only."
    FENCED_MEMBER_EPOCH = 110, _FATAL, "The member was fenced: drop all partitions and rejoin."
    UNRELEASED_INSTANCE_ID = 111, _FATAL, "Another member still uses this instance id."
    UNSUPPORTED_ASSIGNOR = 112, _FATAL, "The group cannot use this assignor."
    STALE_MEMBER_EPOCH = 113, _FATAL, "The member epoch is old; retry with the current epoch."
    MISMATCHED_ENDPOINT_TYPE = 114, _FATAL, "The request went to the wrong type of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, _FATAL, "This type of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, _FATAL, "No controller has this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, _FATAL, "The telemetry subscription is unknown or old."
    TELEMETRY_TOO_LARGE = 118, _FATAL, "The pushed metrics are too large."
    INVALID_REGISTRATION = 119, _FATAL, "The broker's registration is not valid."
    TRANSACTION_ABORTABLE = 120, _FATAL, "The transaction failed; abort it and continue."
    INVALID_RECORD_STATE = 121, _FATAL, "The record's delivery state does not allow this."
    SHARE_SESSION_NOT_FOUND = 122, _RETRY, "No such share session."
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRY, "The share session expects another epoch."
    FENCED_STATE_EPOCH = 124, _FATAL, "The share group's state has another epoch."
    INVALID_VOTER_KEY = 125, _FATAL, "The voter's key does not match the receiver's."
    DUPLICATE_VOTER = 126, _FATAL, "The voter is in the set already."
    VOTER_NOT_FOUND = 127, _FATAL, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, _FATAL, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, _FATAL, "The client's metadata is old; bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, _FATAL, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, _FATAL, "The topology's epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, _FATAL, "The topology's epoch is old."
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRY, "The broker has reached its limit of share sessions."


class ProtocolError(Exception):
    """The base class of the errors of this package."""

    code = ErrorCode.INVALID_REQUEST


class MalformedMessage(ProtocolError):
    """The bytes are not a valid message of the expected type."""


class UnsupportedVersion(ProtocolError):
    """The message does not have this version, or has a value that the version cannot carry."""

    code = ErrorCode.UNSUPPORTED_VERSION
