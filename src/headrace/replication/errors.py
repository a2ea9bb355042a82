"""Why a replica does not do what was asked of it."""

from headrace.protocol.errors import ErrorCode
from headrace.storage.errors import StorageError


class RoleEnded(StorageError):
    """This broker led the partition when the request came, and no longer does."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
