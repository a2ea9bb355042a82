"""What the sender of a request may do, decided with the ACLs of the current metadata image.

Without `authorizer.class.name` everything is allowed. With it, only super users pass until the
broker has loaded the cluster's metadata. A decision always sees the ACLs of the current image:
decisions are remembered, but a changed image empties that memory before the next one.

A part of the broker that keeps something it was allowed to do (a fast path, a fetch session, a
waiting fetch) keeps `AccessControl.version` with it. If the version has changed, the part asks
again.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headrace.broker.access.audit_log import AuditLog
from headrace.clock import Clock
from headrace.cluster.image import MetadataImage
from headrace.security.authorization.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Acl,
    AclOperation,
    AclResourceType,
)
from headrace.security.authorization.acl_index import AclIndex
from headrace.security.authorization.authorizer import Authorizer, Decision, Reason
from headrace.security.principal import Principal
from headrace.security.session import Session

MAX_REMEMBERED_DECISIONS: Final = 10_000
"""A few megabytes. If clients use more names than this, decisions take a few microseconds more."""
MAX_REMEMBERED_NAME_CHARS: Final = 249
"""The longest name of a topic; names of groups and transactional ids may have 32 kB."""

_Question = tuple[Principal, str, AclOperation, AclResourceType, str]


class AccessControl:
    """The authorizer of one broker. `image` returns its current metadata image."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        clock: Clock,
        *,
        is_enforced: bool = False,
        super_users: frozenset[Principal] = frozenset(),
        allow_if_no_acl: bool = False,
        inter_broker_listener: str | None = None,
    ) -> None:
        self._inter_broker_listener = inter_broker_listener
        self.is_enforced = is_enforced
        """False without an authorizer: callers may skip their checks."""
        self.audit = AuditLog(clock)
        self._image = image
        self._acls: Mapping[Acl, None] = {}
        self._authorizer = Authorizer(None, super_users, allow_if_no_acl=allow_if_no_acl)
        self._version = 0
        self._decisions: dict[_Question, Decision] = {}

    @property
    def version(self) -> int:
        """A number that increases with each change of the ACLs; constant without an authorizer."""
        if self.is_enforced:
            self._current()
        return self._version

    def allows(
        self, session: Session, operation: AclOperation, type_: AclResourceType, name: str
    ) -> bool:
        """Whether the sender may do this; the audit log gets the decision."""
        if not self.is_enforced or session.is_internal:
            return True
        decision = self._decide(session, operation, type_, name)
        self.audit.log_decision(session, operation, type_, name, decision)
        return decision.allowed

    def shows(
        self, session: Session, operation: AclOperation, type_: AclResourceType, name: str
    ) -> bool:
        """The same decision without the audit log: for filters that leave out hidden resources."""
        if not self.is_enforced or session.is_internal:
            return True
        return self._decide(session, operation, type_, name).allowed

    def allows_cluster(self, session: Session, *operations: AclOperation) -> bool:
        """Whether the sender may do any one of these operations on the cluster.

        An ACL for CLUSTER_ACTION counts on the listener between brokers only. The audit log gets
        the operation that decided: the first that is allowed, else the last.
        """
        type_, name = AclResourceType.CLUSTER, CLUSTER_NAME
        usable = [each for each in operations if self._may_use_on_cluster(session, each)]
        if not usable:
            self.audit.log_decision(session, operations[-1], type_, name, _WRONG_LISTENER)
            return False
        for operation in usable[:-1]:
            if self.shows(session, operation, type_, name):
                return self.allows(session, operation, type_, name)
        return self.allows(session, usable[-1], type_, name)

    def shows_cluster(self, session: Session, operation: AclOperation) -> bool:
        """Like `allows_cluster`, without the audit log: other rights may allow the request, too."""
        return self._may_use_on_cluster(session, operation) and self.shows(
            session, operation, AclResourceType.CLUSTER, CLUSTER_NAME
        )

    def _may_use_on_cluster(self, session: Session, operation: AclOperation) -> bool:
        """Brokers talk to each other on one listener: clients have no use for CLUSTER_ACTION.

        Super users may do everything anyway. So brokers may move to another listener one by one.
        """
        return (
            operation is not AclOperation.CLUSTER_ACTION
            or not self.is_enforced
            or session.is_internal
            or session.listener == self._inter_broker_listener
            or self._authorizer.is_super_user(session.principal)
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
        authorizer = self._current()
        principal, host = session.principal, session.host
        question = (principal, host, operation, type_, name)
        decision = self._decisions.get(question)
        if decision is None:
            decision = authorizer.decide(principal, host, operation, type_, name)
            if len(name) <= MAX_REMEMBERED_NAME_CHARS:
                if len(self._decisions) >= MAX_REMEMBERED_DECISIONS:
                    self._decisions.clear()
                self._decisions[question] = decision
        return decision

    def _current(self) -> Authorizer:
        image = self._image()
        if image.acls is not self._acls or self._authorizer.index is None:
            self._apply(image)
        return self._authorizer

    def _apply(self, image: MetadataImage) -> None:
        """Makes the ACLs of this image current."""
        if not image.cluster_id:
            return  # the image is still empty: it says nothing about ACLs
        index = self._authorizer.index
        if index is None:
            self._authorizer.index = AclIndex(image.acls)
        else:
            index.apply_difference(self._acls, image.acls)
        self._acls = image.acls
        self._version += 1
        self._decisions.clear()


OPERATIONS_NOT_REQUESTED: Final = -(2**31)
"""The bits of a response to a client that did not ask for them."""
_ALL_OPERATIONS: Final = {
    type_: sum(1 << operation for operation in operations)
    for type_, operations in SUPPORTED_OPERATIONS.items()
}
_WRONG_LISTENER: Final = Decision(False, Reason.WRONG_LISTENER)
