"""What the sender of a request may do, decided with the ACLs of the current metadata image.

Without `authorizer.class.name` everything is allowed. With it, only super users pass until the
broker has loaded the cluster's metadata.
"""

from collections.abc import Callable, Iterable
from typing import Final

from headrace.cluster.image import MetadataImage
from headrace.security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Acl,
    AclOperation,
    AclResourceType,
)
from headrace.security.authorizer import AclIndex, Authorizer, Decision, Reason
from headrace.security.principal import Principal
from headrace.security.session import Session


class AccessControl:
    """The authorizer of one broker. `image` returns its current metadata image."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        *,
        is_enforced: bool = False,
        super_users: frozenset[Principal] = frozenset(),
        allow_if_no_acl: bool = False,
        inter_broker_listener: str | None = None,
    ) -> None:
        self._inter_broker_listener = inter_broker_listener
        self.is_enforced = is_enforced
        """False without an authorizer: callers may skip their checks."""
        self._image = image
        self._acls: Iterable[Acl] = ()
        self._authorizer = Authorizer(AclIndex(), super_users, allow_if_no_acl=allow_if_no_acl)

    def allows(
        self, session: Session, operation: AclOperation, type_: AclResourceType, name: str
    ) -> bool:
        """Whether the sender may do this; the audit log gets the decision."""
        return not self.is_enforced or self._decide(session, operation, type_, name).allowed

    def shows(
        self, session: Session, operation: AclOperation, type_: AclResourceType, name: str
    ) -> bool:
        """The same decision without the audit log: for filters that leave out hidden resources."""
        return not self.is_enforced or self._decide(session, operation, type_, name).allowed

    def allows_cluster(self, session: Session, *operations: AclOperation) -> bool:
        """Whether the sender may do any one of these operations on the cluster.

        CLUSTER_ACTION is only allowed on the listener between brokers.
        """
        return any(
            self._may_use_on_cluster(session, operation)
            and self.allows(session, operation, AclResourceType.CLUSTER, CLUSTER_NAME)
            for operation in operations
        )

    def shows_cluster(self, session: Session, operation: AclOperation) -> bool:
        """Like `allows_cluster`, without the audit log: other rights may allow the request, too."""
        return self._may_use_on_cluster(session, operation) and self.shows(
            session, operation, AclResourceType.CLUSTER, CLUSTER_NAME
        )

    def _may_use_on_cluster(self, session: Session, operation: AclOperation) -> bool:
        """Brokers talk to each other on one listener: clients have no use for CLUSTER_ACTION."""
        return (
            operation is not AclOperation.CLUSTER_ACTION
            or not self.is_enforced
            or session.is_internal
            or session.listener == self._inter_broker_listener
        )

    def allows_any(self, session: Session, operation: AclOperation, type_: AclResourceType) -> bool:
        """Whether there may be a resource of this type on which the sender may do this."""
        if not self.is_enforced or session.is_internal:
            return True
        return self._current().decide_for_any(session.principal, session.host, operation, type_)

    def authorized_operations(self, session: Session, type_: AclResourceType, name: str) -> int:
        """The operations that the sender may do on this resource, as the bits of a response."""
        if not self.is_enforced:
            return _ALL_OPERATIONS[type_]
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[type_]
            if self.shows(session, operation, type_, name)
        )

    def authorized_cluster_operations(self, session: Session) -> int:
        """The same for the cluster. Without DESCRIBE there are none, as in Kafka."""
        if not self.allows_cluster(session, AclOperation.DESCRIBE):
            return 0
        return self.authorized_operations(session, AclResourceType.CLUSTER, CLUSTER_NAME)

    def _decide(
        self, session: Session, operation: AclOperation, type_: AclResourceType, name: str
    ) -> Decision:
        if session.is_internal:
            return _INTERNAL
        return self._current().decide(session.principal, session.host, operation, type_, name)

    def _current(self) -> Authorizer:
        acls = self._image().acls
        if acls is not self._acls:
            self._acls = acls
            self._authorizer.index = AclIndex(acls)
        return self._authorizer


OPERATIONS_NOT_REQUESTED: Final = -(2**31)
"""The bits of a response to a client that did not ask for them."""
_ALL_OPERATIONS: Final = {
    type_: sum(1 << operation for operation in operations)
    for type_, operations in SUPPORTED_OPERATIONS.items()
}
_INTERNAL: Final = Decision(True, Reason.INTERNAL)
