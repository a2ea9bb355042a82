"""Quotas do not apply to brokers, and a client cannot claim to be one."""

import pytest

from headrace.broker.access.access_control import AccessControl
from headrace.broker.quotas.exemption import BROKER_CLIENT_ID_PREFIX, BrokerExemption
from headrace.clock import SystemClock
from headrace.cluster.image import MetadataImage
from headrace.security.authorization.acl import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from headrace.security.principal import ANONYMOUS, Principal, user
from headrace.security.session import INTERNAL, Session

BROKERS, CLIENTS = "BROKERS", "CLIENTS"
BROKER_ID = f"{BROKER_CLIENT_ID_PREFIX}1"
MAY_ACT = Acl(
    ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME),
    "User:broker",
    "*",
    AclOperation.CLUSTER_ACTION,
    AclPermission.ALLOW,
)
IMAGE = MetadataImage(version=1, cluster_id="a cluster", acls={MAY_ACT: None})


def exemption(*, is_enforced: bool, is_member: bool = True) -> BrokerExemption:
    access = AccessControl(
        lambda: IMAGE,
        SystemClock(),
        is_enforced=is_enforced,
        super_users=frozenset({user("admin")}),
        inter_broker_listener=BROKERS,
    )
    return BrokerExemption(access, BROKERS, lambda: is_member)


@pytest.mark.parametrize(
    ("principal", "listener", "exempt"),
    [
        (user("broker"), BROKERS, True),
        (user("broker"), CLIENTS, False),
        (user("admin"), BROKERS, True),
        (user("admin"), CLIENTS, False),
        (user("alice"), BROKERS, False),
    ],
)
def test_with_an_authorizer_brokers_are_exempt_on_their_listener(
    principal: Principal, listener: str, exempt: bool
) -> None:
    session = Session(principal, "10.0.0.1", listener)
    found = exemption(is_enforced=True).exempts(session, "any client id")
    assert found is exempt
    assert exemption(is_enforced=True).exempts(session, BROKER_ID) is exempt


@pytest.mark.parametrize(
    ("listener", "client_id", "is_member", "exempt"),
    [
        (BROKERS, BROKER_ID, True, True),
        (BROKERS, BROKER_ID, False, False),
        (BROKERS, "app", True, False),
        (CLIENTS, BROKER_ID, True, False),
    ],
)
def test_without_an_authorizer_the_client_id_says_who_is_a_broker(
    listener: str, client_id: str, is_member: bool, exempt: bool
) -> None:
    session = Session(ANONYMOUS, "10.0.0.1", listener)
    rule = exemption(is_enforced=False, is_member=is_member)
    assert rule.exempts(session, client_id) is exempt


def test_requests_of_the_broker_itself_are_exempt() -> None:
    assert exemption(is_enforced=True).exempts(INTERNAL, "")
    assert exemption(is_enforced=False).exempts(INTERNAL, "")
