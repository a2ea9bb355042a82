"""The access rule of an API: what its row in the table of handlers says about authorization.

A row without a rule does not type-check, and a broker with such a row does not start. Dispatch
enforces `ClusterAccess` before the handler. With `ResourceAccess` the handler checks each resource
of the request; `tests/integration/test_access_matrix.py` sends every request without and with
exactly these rights.
"""

from typing import Final, NamedTuple

from headrace.security.authorization.acl import AclOperation, AclResourceType


class FreeAccess(NamedTuple):
    """Every authenticated client may send the request."""


class ClusterAccess(NamedTuple):
    """Any one of these operations on the cluster is needed."""

    operations: tuple[AclOperation, ...]


class ResourceAccess(NamedTuple):
    """The handler checks these operations on the resources that the request names."""

    checks: tuple[tuple[AclOperation, AclResourceType], ...]


AccessRule = FreeAccess | ClusterAccess | ResourceAccess

FREE: Final = FreeAccess()


def cluster(*operations: AclOperation) -> ClusterAccess:
    return ClusterAccess(operations)


def resources(*checks: tuple[AclOperation, AclResourceType]) -> ResourceAccess:
    return ResourceAccess(checks)


def is_between_brokers(rule: AccessRule) -> bool:
    """Whether only brokers send the request."""
    return isinstance(rule, ClusterAccess) and AclOperation.CLUSTER_ACTION in rule.operations
