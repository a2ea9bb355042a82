"""While faults happen, a right is given and taken, and the certificate of the brokers is replaced.

When every broker shows that the right is gone, no broker may serve a request that needs it, neither
on a connection that used it before nor on a new one.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Final

from bench.peers.node import Node
from bench.wire import Wire

from chaos.secured_cluster import CLIENT, GUEST, SecuredCluster
from headrace.protocol.errors import ErrorCode, ProtocolError
from headrace.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from headrace.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headrace.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.record import Record, build_batch
from headrace.security.authorization.acl import (
    ANY_HOST,
    CLUSTER_NAME,
    WILDCARD_NAME,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)

GUARDED: Final = "guarded"
ACLS_VERSION: Final = 2
PRODUCE_VERSION: Final = 9
CONNECT_S: Final = 2.0
KNOWN_S: Final = 8.0
STEP_S: Final = 0.05
CERTIFICATE_S: Final = 6.0  # a little more than the time in which a broker notices a new one
Problem = (OSError, ProtocolError, ValueError, IndexError)


class Rights(threading.Thread):
    """Gives and takes the guest's right until it is ended; `served` lists violations."""

    def __init__(self, cluster: SecuredCluster) -> None:
        super().__init__(name="rights", daemon=True)
        self.allowed = self.denied = self.certificates = 0
        self.served: list[str] = []
        self._cluster = cluster
        self._ending = threading.Event()
        self._next_certificate = time.monotonic() + CERTIFICATE_S

    def allow_clients(self) -> None:
        """The rights of the other clients, for the whole run."""
        everything = [
            _allow(CLIENT, AclResourceType.TOPIC, WILDCARD_NAME, AclOperation.ALL),
            _allow(CLIENT, AclResourceType.GROUP, WILDCARD_NAME, AclOperation.ALL),
            _allow(CLIENT, AclResourceType.TRANSACTIONAL_ID, WILDCARD_NAME, AclOperation.ALL),
            _allow(CLIENT, AclResourceType.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE),
        ]
        with _plain(self._cluster.brokers[0]) as wire:
            answer = wire.call(
                CreateAclsRequest(creations=everything), CreateAclsResponse, ACLS_VERSION
            )
            assert not any(each.error_code for each in answer.results), answer

    def run(self) -> None:
        while not self._ending.is_set():
            if time.monotonic() > self._next_certificate:
                self._cluster.issue_certificate()
                self.certificates += 1
                self._next_certificate = time.monotonic() + CERTIFICATE_S
            with ExitStack() as opened:
                if not (self._change(_create) and self._all_show(1)):
                    continue
                connections = list(self._connect_all(opened))
                for _, wire in connections:
                    self.allowed += _write(wire) == ErrorCode.NONE
                if not (self._change(_delete) and self._all_show(0)):
                    continue
                connections += self._connect_all(opened)
                for broker, wire in connections:
                    self._check_denied(broker, wire)

    def end(self) -> None:
        self._ending.set()
        self.join()

    def _check_denied(self, broker: Node, wire: Wire) -> None:
        code = _write(wire)
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.denied += 1
        elif code is not None:
            self.served.append(f"{broker} answered {ErrorCode(code).name} without the right")

    def _connect_all(self, opened: ExitStack) -> Iterator[tuple[Node, Wire]]:
        for broker in self._cluster.brokers:
            with suppress(*Problem):
                yield broker, opened.enter_context(self._cluster.connect_guest(broker))

    def _change(self, change: Callable[[Wire], None]) -> bool:
        """Whether a broker has made the change."""
        for broker in self._cluster.brokers:
            with suppress(*Problem), _plain(broker) as wire:
                change(wire)
                return True
        self._ending.wait(STEP_S)
        return False

    def _all_show(self, count: int) -> bool:
        """Whether every broker shows `count` ACLs of the guest, within a few seconds."""
        deadline = time.monotonic() + KNOWN_S
        for broker in self._cluster.brokers:
            while not self._shows(broker, count):
                if time.monotonic() > deadline or self._ending.wait(STEP_S):
                    return False
        return True

    def _shows(self, broker: Node, count: int) -> bool:
        request = DescribeAclsRequest(
            resource_type_filter=AclResourceType.TOPIC,
            resource_name_filter=GUARDED,
            pattern_type_filter=PatternType.LITERAL,
            principal_filter=None,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermission.ANY,
        )
        with suppress(*Problem), _plain(broker) as wire:
            answer = wire.call(request, DescribeAclsResponse, ACLS_VERSION)
            return not answer.error_code and count == sum(
                len(each.acls) for each in answer.resources
            )
        return False


def _plain(broker: Node) -> Wire:
    return Wire(broker.address, timeout_s=CONNECT_S)


def _allow(user: str, type_: AclResourceType, name: str, operation: AclOperation) -> AclCreation:
    return AclCreation(
        resource_type=type_,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=f"User:{user}",
        host=ANY_HOST,
        operation=operation,
        permission_type=AclPermission.ALLOW,
    )


def _create(wire: Wire) -> None:
    right = _allow(GUEST, AclResourceType.TOPIC, GUARDED, AclOperation.WRITE)
    answer = wire.call(CreateAclsRequest(creations=[right]), CreateAclsResponse, ACLS_VERSION)
    _check(answer.results[0].error_code)


def _delete(wire: Wire) -> None:
    every = DeleteAclsFilter(
        resource_type_filter=AclResourceType.TOPIC,
        resource_name_filter=GUARDED,
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    answer = wire.call(DeleteAclsRequest(filters=[every]), DeleteAclsResponse, ACLS_VERSION)
    _check(answer.filter_results[0].error_code)


def _check(code: int) -> None:
    if code:
        raise ProtocolError(ErrorCode(code).name)


def _write(wire: Wire) -> int | None:
    """The error code of a write to the guarded topic; None if the connection has failed."""
    records = build_batch([Record(0, 0, None, b"x")])
    data = TopicProduceData(
        name=GUARDED, partition_data=[PartitionProduceData(index=0, records=records)]
    )
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data])
    try:
        answer = wire.call(request, ProduceResponse, PRODUCE_VERSION)
        return answer.responses[0].partition_responses[0].error_code
    except Problem:
        return None
