"""Errors of replicas."""

from headrace.protocol.errors import ErrorCode
from headrace.storage.errors import StorageError


class RoleEnded(StorageError):
    """This broker led the partition when the request arrived, but no longer does."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
