"""DescribeAcls, CreateAcls and DeleteAcls over the wire, and the access that they give and take."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.cluster.resources import ConfigResourceType
from headrace.controller.config_changes import AlterOperation
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.authorization.acl_filter import ANY_ACL, AclFilter
from headrace.testing import Broker
from support.wire.acls import (
    create_acls,
    delete_acls,
    describe_acls,
    exactly,
    listed,
    topic_acl,
)
from support.wire.connection import Wire

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
VERSIONS = range(1, 4)
DENY = AclPermission.DENY
WRITE = AclOperation.WRITE
ORDERS = topic_acl("orders")
DENY_ORDERS = topic_acl("orders", "User:bob", WRITE, DENY, host="10.0.0.9")
PREFIXED = topic_acl("ord", "User:*", prefixed=True)
EVERY_TOPIC = topic_acl("*", "User:carol")
GROUP = topic_acl("billing", type_=AclResourceType.GROUP)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def admin(broker: Broker) -> Iterator[Wire]:
    """A super user's connection to a broker without ACLs."""
    with Wire(broker.bootstrap_servers) as wire:
        delete_acls(wire, [ANY_ACL])
        yield wire


@pytest.mark.parametrize("version", VERSIONS)
def test_acls_are_created_listed_and_deleted_in_every_version(admin: Wire, version: int) -> None:
    acls = [ORDERS, DENY_ORDERS, PREFIXED, EVERY_TOPIC, GROUP]
    results = create_acls(admin, acls, version)
    assert [(each.error_code, each.error_message) for each in results] == [(0, "")] * 5
    assert listed(describe_acls(admin, version=version)) == set(acls)
    (deleted,) = delete_acls(admin, [exactly(DENY_ORDERS)], version)
    (match,) = deleted.matching_acls
    assert (deleted.error_code, match.error_code, match.host) == (0, 0, "10.0.0.9")
    assert listed(describe_acls(admin, version=version)) == {ORDERS, PREFIXED, EVERY_TOPIC, GROUP}


def test_an_acl_that_exists_is_created_again_without_an_error_or_a_copy(admin: Wire) -> None:
    for _ in range(2):
        results = create_acls(admin, [ORDERS, ORDERS])
        assert [each.error_code for each in results] == [0, 0]
    assert [len(each.acls) for each in describe_acls(admin).resources] == [1]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(name="orders"), {ORDERS, DENY_ORDERS}),
        (AclFilter(AclResourceType.TOPIC, "orders", PatternType.MATCH),
         {ORDERS, DENY_ORDERS, PREFIXED, EVERY_TOPIC}),
        (AclFilter(AclResourceType.TOPIC, "other", PatternType.MATCH), {EVERY_TOPIC}),
        (AclFilter(AclResourceType.TOPIC, None, PatternType.PREFIXED), {PREFIXED}),
        (AclFilter(AclResourceType.GROUP), {GROUP}),
        (AclFilter(principal="User:bob"), {DENY_ORDERS}),
        (AclFilter(host="*", operation=AclOperation.READ), {ORDERS, PREFIXED, EVERY_TOPIC, GROUP}),
        (AclFilter(permission=DENY), {DENY_ORDERS}),
        (AclFilter(name="nothing"), set()),
    ],
)  # fmt: skip
def test_filters_find_acls_when_listing_and_deleting(
    admin: Wire, wanted: AclFilter, found: set[Acl]
) -> None:
    acls = {ORDERS, DENY_ORDERS, PREFIXED, EVERY_TOPIC, GROUP}
    create_acls(admin, list(acls))
    assert listed(describe_acls(admin, wanted)) == found
    delete_acls(admin, [wanted])
    assert listed(describe_acls(admin)) == acls - found


def test_an_invalid_acl_does_not_affect_the_others(admin: Wire) -> None:
    bad = ORDERS._replace(pattern=ResourcePattern(AclResourceType.TOPIC, "x", PatternType.MATCH))
    refused, created = create_acls(admin, [bad, GROUP])
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "Invalid patternType MATCH"
    assert created.error_code == ErrorCode.NONE
    assert listed(describe_acls(admin)) == {GROUP}


def test_a_filter_with_an_unknown_code_is_refused(admin: Wire) -> None:
    unknown = AclFilter(operation=AclOperation.UNKNOWN)
    assert describe_acls(admin, unknown).error_code == ErrorCode.INVALID_REQUEST
    create_acls(admin, [ORDERS])
    refused, deleted = delete_acls(admin, [unknown, exactly(ORDERS)])
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "Unknown entryFilter."
    assert deleted.error_code == ErrorCode.NONE


def test_concurrent_changes_of_one_resource_are_all_kept(admin: Wire, broker: Broker) -> None:
    """KAFKA-3328: of two concurrent changes, one was lost."""
    gone = [topic_acl("orders", f"User:gone-{index}") for index in range(8)]
    create_acls(admin, gone)

    def change(index: int) -> list[Acl]:
        with Wire(broker.bootstrap_servers) as wire:
            mine = [topic_acl("orders", f"User:u-{index}-{each}") for each in range(5)]
            for acl in mine:
                (result,) = create_acls(wire, [acl])
                assert result.error_code == ErrorCode.NONE
            (deleted,) = delete_acls(wire, [exactly(gone[index])])
            assert len(deleted.matching_acls) == 1
            return mine

    with ThreadPoolExecutor(8) as pool:
        created = [acl for mine in pool.map(change, range(8)) for acl in mine]
    assert listed(describe_acls(admin)) == set(created)


# --- access -----------------------------------------------------------------------------------


@pytest.fixture
def start() -> Iterator[Callable[..., Broker]]:
    started: list[Broker] = []

    def start(settings: Mapping[str, str]) -> Broker:
        broker = Broker(settings=settings)
        started.append(broker)
        return broker.start()

    yield start
    for broker in started:
        broker.close()


def test_without_an_authorizer_security_is_disabled(start: Callable[..., Broker]) -> None:
    with Wire(start({}).bootstrap_servers) as wire:
        described = describe_acls(wire)
        (created,) = create_acls(wire, [ORDERS])
        (deleted,) = delete_acls(wire, [ANY_ACL])
        assert (described.error_code, described.error_message) == (
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured on the broker",
        )
        for each in (created, deleted):
            assert each.error_code == ErrorCode.SECURITY_DISABLED
            assert each.error_message == "No Authorizer is configured."


def test_acls_are_described_and_altered_only_with_the_right_on_the_cluster(
    start: Callable[..., Broker],
) -> None:
    broker = start({**SETTINGS, "super.users": "User:admin"})
    failed = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with Wire(broker.bootstrap_servers) as wire:
        assert describe_acls(wire).error_code == failed
        assert [each.error_code for each in create_acls(wire, [ORDERS, GROUP])] == [failed] * 2
        assert [each.error_code for each in delete_acls(wire, [ANY_ACL])] == [failed]


CLUSTER_ALTER, CLUSTER_DESCRIBE = (
    topic_acl("kafka-cluster", "User:ANONYMOUS", operation, type_=AclResourceType.CLUSTER)
    for operation in (AclOperation.ALTER, AclOperation.DESCRIBE)
)


@pytest.fixture
def delegated(start: Callable[..., Broker]) -> Broker:
    """A broker whose clients are no super users and may change ACLs because of ACLs."""
    broker = start({**SETTINGS, "super.users": "User:admin"})
    node = broker.node
    assert node is not None
    granted = node.metadata.decide(
        lambda controller: controller.create_acls([CLUSTER_ALTER, CLUSTER_DESCRIBE])
    )
    asyncio.run_coroutine_threadsafe(granted, node.loop).result(10)  # type: ignore[arg-type]
    return broker


def test_a_change_takes_effect_with_the_next_request(delegated: Broker) -> None:
    with Wire(delegated.bootstrap_servers) as wire:
        (created,) = create_acls(wire, [ORDERS])
        assert created.error_code == ErrorCode.NONE
        (created,) = create_acls(wire, [CLUSTER_ALTER._replace(permission=DENY, host="127.0.0.1")])
        assert created.error_code == ErrorCode.NONE
        (refused,) = create_acls(wire, [GROUP])
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert ORDERS in listed(describe_acls(wire))


def test_log_levels_are_described_and_altered_only_with_the_right_on_the_cluster(
    delegated: Broker,
) -> None:
    assert delegated.node is not None
    type_, name = ConfigResourceType.BROKER_LOGGER, str(delegated.node.node_id)
    change = IncrementalAlterConfigsAlterableConfig(
        name="headrace.broker.share", config_operation=AlterOperation.DELETE
    )
    altered = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=type_, resource_name=name, configs=[change]
    )
    alter = IncrementalAlterConfigsRequest(resources=[altered])
    described = DescribeConfigsResource(
        resource_type=type_, resource_name=name, configuration_keys=None
    )
    describe = DescribeConfigsRequest(resources=[described])
    with Wire(delegated.bootstrap_servers) as wire:

        def codes() -> list[int]:
            (found,) = wire.call(describe, DescribeConfigsResponse).results
            (changed,) = wire.call(alter, IncrementalAlterConfigsResponse).responses
            return [found.error_code, changed.error_code]

        assert codes() == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
        create_acls(wire, [CLUSTER_ALTER._replace(operation=AclOperation.DESCRIBE_CONFIGS)])
        assert codes() == [0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        create_acls(wire, [CLUSTER_ALTER._replace(operation=AclOperation.ALTER_CONFIGS)])
        assert codes() == [0, 0]


def test_a_deny_is_not_lost_when_another_acl_of_its_resource_is_deleted(delegated: Broker) -> None:
    """CVE-2024-27309."""
    denied = CLUSTER_DESCRIBE._replace(permission=DENY)
    other = CLUSTER_DESCRIBE._replace(principal="User:other")
    with Wire(delegated.bootstrap_servers) as wire:
        create_acls(wire, [denied, other])
        failed = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert describe_acls(wire).error_code == failed
        delete_acls(wire, [exactly(other)])
        assert describe_acls(wire).error_code == failed
        delete_acls(wire, [exactly(denied)])
        assert listed(describe_acls(wire)) == {CLUSTER_ALTER, CLUSTER_DESCRIBE}


def test_the_audit_log_has_changes_and_denied_requests(
    delegated: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    logged = caplog.at_level(logging.INFO, "headrace.authorizer")
    with logged, Wire(delegated.bootstrap_servers) as wire:
        create_acls(wire, [ORDERS, ORDERS])
        create_acls(wire, [ORDERS])
        delete_acls(wire, [exactly(ORDERS), ANY_ACL])
        assert describe_acls(wire).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    lines = [vars(each) for each in caplog.records if each.name == "headrace.authorizer"]
    changes = [(each["msg"], each.get("acl")) for each in lines[:-1]]
    assert changes[0] == ("created an ACL", ORDERS)
    assert changes[1] == ("deleted an ACL", ORDERS)
    assert {acl for _, acl in changes[2:]} == {CLUSTER_ALTER, CLUSTER_DESCRIBE}
    told = [lines[-1][field] for field in ("msg", "principal", "operation", "resource", "api")]
    assert told == ["denied", "User:ANONYMOUS", "DESCRIBE", "CLUSTER:kafka-cluster", "DescribeAcls"]


def test_acls_survive_a_restart(start: Callable[..., Broker]) -> None:
    broker = start(SETTINGS)
    acls = [ORDERS, DENY_ORDERS, PREFIXED, EVERY_TOPIC, GROUP]
    with Wire(broker.bootstrap_servers) as wire:
        create_acls(wire, acls)
        delete_acls(wire, [exactly(GROUP)])
    broker.restart()
    with Wire(broker.bootstrap_servers) as wire:
        assert listed(describe_acls(wire)) == set(acls) - {GROUP}
