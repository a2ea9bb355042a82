"""ACLs in a cluster: any broker takes a change, and every broker knows it when it is answered."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.security.authorization.acl_filter import ANY_ACL
from headrace.testing import Cluster
from support.wire.acls import create_acls, delete_acls, describe_acls, exactly, listed, topic_acl
from support.wire.connection import Wire

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def wires() -> Iterator[list[Wire]]:
    """A connection to each broker."""
    with Cluster(3, settings=SETTINGS) as cluster, ExitStack() as opened:
        servers = cluster.bootstrap_servers.split(",")
        yield [opened.enter_context(Wire(each)) for each in servers]


def test_a_change_through_any_broker_is_known_to_every_broker_when_it_is_answered(
    wires: list[Wire],
) -> None:
    acls = [topic_acl("orders", f"User:u{index}") for index in range(len(wires))]
    for known, (wire, acl) in enumerate(zip(wires, acls, strict=True), start=1):
        (created,) = create_acls(wire, [acl])
        assert created.error_code == ErrorCode.NONE, created
        for each in wires:
            assert listed(describe_acls(each)) == set(acls[:known])
    (deleted,) = delete_acls(wires[0], [exactly(acls[1])])
    assert len(deleted.matching_acls) == 1
    for each in wires:
        assert listed(describe_acls(each)) == {acls[0], acls[2]}
    delete_acls(wires[1], [ANY_ACL])
    assert [listed(describe_acls(each)) for each in wires] == [set()] * 3
