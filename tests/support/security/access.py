"""Rights on a running broker: ACLs, and connections that act as a given user."""

import uuid
from collections.abc import Callable
from dataclasses import replace

from headrace.broker.network.connection import Connection
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.security.authorization.acl import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from headrace.security.principal import user
from headrace.security.session import Session
from headrace.testing.broker import Broker
from support.waiting import wait_for
from support.wire.acls import create_acls, delete_acls, exactly
from support.wire.connection import Wire

SUPER_USER = "admin"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{SUPER_USER}",
}
"""Settings of a broker that enforces ACLs."""


def allow(name: str, operation: AclOperation, type_: AclResourceType, resource: str) -> Acl:
    """An ACL that allows a user to do this."""
    pattern = ResourcePattern(type_, resource)
    return Acl(pattern, f"User:{name}", "*", operation, AclPermission.ALLOW)


def allow_on_cluster(name: str, operation: AclOperation) -> Acl:
    return allow(name, operation, AclResourceType.CLUSTER, CLUSTER_NAME)


def grant(broker: Broker, *acls: Acl) -> None:
    """Adds ACLs as the super user."""
    with Wire(broker.bootstrap_servers) as wire:
        results = create_acls(act_as(broker, wire, SUPER_USER), acls)
    assert not any(result.error_code for result in results), results


def revoke(broker: Broker, *acls: Acl) -> None:
    """Deletes ACLs as the super user."""
    filters = [exactly(acl) for acl in acls]
    with Wire(broker.bootstrap_servers) as wire:
        results = delete_acls(act_as(broker, wire, SUPER_USER), filters)
    assert all(len(result.matching_acls) == 1 for result in results), results


def act_as(broker: Broker, wire: Wire, name: str, *, listener: str | None = None) -> Wire:
    """Makes the connection act as this user, as after a login; perhaps on another listener."""
    return change_session(
        broker,
        wire,
        lambda session: replace(
            session, principal=user(name), listener=listener or session.listener
        ),
    )


def change_session(broker: Broker, wire: Wire, change: Callable[[Session], Session]) -> Wire:
    """Changes whom the connection acts for, as a login does."""
    host, port = wire.socket.getsockname()[:2]
    connection = _connection(broker, f"{host}:{port}")

    def log_in() -> None:
        connection.session = change(connection.session)

    broker.on_loop(log_in)
    return wire


def _connection(broker: Broker, peer: str) -> Connection:
    """The broker's side of a client's connection, once the broker has accepted it."""
    node = broker.node
    assert node is not None

    def find() -> Connection | None:
        return next((each for each in node.server._connections if each.peer == peer), None)

    return wait_for(lambda: broker.on_loop(find), "the broker has accepted the connection")


class TopicUser:
    """A user with a topic and a group of its own, and without rights on them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.name = uuid.uuid4().hex
        self.topic = f"topic-{self.name}"
        self.group = f"group-{self.name}"
        self._open: list[Wire] = []

    def connect(self, name: str | None = None, *, listener: str | None = None) -> Wire:
        """A connection of this user, or of another one."""
        wire = Wire(self.broker.bootstrap_servers)
        self._open.append(wire)
        return act_as(self.broker, wire, name or self.name, listener=listener)

    def allow(self, operation: AclOperation, type_: AclResourceType, resource: str) -> Acl:
        """Grants a right to the user."""
        acl = allow(self.name, operation, type_, resource)
        grant(self.broker, acl)
        return acl

    def commit(self, wire: Wire, offset: int) -> int:
        """Commits an offset of the group; the error code."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name=self.topic, partitions=[partition])
        request = OffsetCommitRequest(group_id=self.group, topics=[topic])
        answer = wire.call(request, OffsetCommitResponse, 8)
        return answer.topics[0].partitions[0].error_code

    def close(self) -> None:
        for wire in self._open:
            wire.close()
