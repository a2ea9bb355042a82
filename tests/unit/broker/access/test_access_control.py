"""Access follows the metadata image at once, and the audit log says why."""

import logging
from dataclasses import replace

import pytest

from headrace.broker.access.access_control import MAX_REMEMBERED_DECISIONS, AccessControl
from headrace.broker.access.audit_log import CURRENT_API
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import AclCreated, AclDeleted, ClusterNamed
from headrace.limited_log import BURST_LINES
from headrace.protocol.api import ApiKey
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.authorization.authorizer import Reason
from headrace.security.principal import user
from headrace.security.session import INTERNAL, Session
from headrace.testing import VirtualClock

TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
READ, WRITE, ALTER = AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER
CLUSTER_ACTION = AclOperation.CLUSTER_ACTION
ALICE = Session(user("alice"), "10.0.0.1", "CLIENTS")
ADMIN = Session(user("admin"), "10.0.0.9", "CLIENTS")
LOGGER = "headrace.authorizer"


def acl(
    name: str = "orders",
    operation: AclOperation = READ,
    permission: AclPermission = AclPermission.ALLOW,
    type_: AclResourceType = TOPIC,
) -> Acl:
    pattern = ResourcePattern(type_, name, PatternType.LITERAL)
    return Acl(pattern, "User:alice", "*", operation, permission)


class Node:
    """Access control over an image that the test changes."""

    def __init__(self, *, is_enforced: bool = True, is_open: bool = False) -> None:
        self.image = MetadataImage()
        self.clock = VirtualClock()
        self.access = AccessControl(
            lambda: self.image,
            self.clock,
            is_enforced=is_enforced,
            super_users=frozenset({ADMIN.principal}),
            allow_if_no_acl=is_open,
            inter_broker_listener="BROKERS",
        )

    def load(self) -> None:
        self.image = self.image.apply([ClusterNamed("cluster")])

    def create(self, *acls: Acl) -> None:
        self.image = self.image.apply(map(AclCreated, acls))

    def delete(self, *acls: Acl) -> None:
        self.image = self.image.apply(map(AclDeleted, acls))

    def reads(self, name: str = "orders") -> bool:
        return self.access.allows(ALICE, READ, TOPIC, name)


@pytest.fixture
def node() -> Node:
    node = Node()
    node.load()
    return node


def lines(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, object]]:
    return [vars(each) for each in caplog.records if each.getMessage() == message]


# --- decisions --------------------------------------------------------------------------------


def test_the_next_decision_after_a_change_sees_it(node: Node) -> None:
    assert not node.reads()
    node.create(acl())
    assert node.reads()
    denial = acl(permission=AclPermission.DENY)
    node.create(denial)
    assert not node.reads()
    node.delete(denial)
    assert node.reads()
    node.delete(acl())
    assert not node.reads()


def test_the_version_changes_with_every_change_of_acls_and_with_no_other(node: Node) -> None:
    versions = [node.access.version]
    for change in (lambda: node.create(acl()), lambda: node.delete(acl())):
        change()
        versions.append(node.access.version)
        node.load()
        assert node.access.version == versions[-1]
    assert len(set(versions)) == 3


def test_before_the_metadata_is_loaded_only_super_users_pass() -> None:
    node = Node(is_open=True)
    assert not node.reads()
    assert not node.access.allows_any(ALICE, WRITE, TOPIC)
    assert node.access.allows(ADMIN, READ, TOPIC, "orders")
    node.load()
    assert node.reads()


def test_acls_of_the_first_loaded_image_apply() -> None:
    node = Node()
    node.create(acl())
    assert not node.reads()
    node.load()
    assert node.reads()


def test_without_an_authorizer_everything_is_allowed() -> None:
    node = Node(is_enforced=False)
    assert node.reads()
    assert node.access.allows_any(ALICE, WRITE, TOPIC)
    assert node.access.version == node.access.version


def test_requests_of_the_broker_itself_pass(node: Node) -> None:
    assert node.access.allows(INTERNAL, WRITE, TOPIC, "orders")
    assert node.access.shows(INTERNAL, WRITE, TOPIC, "orders")


def test_many_names_do_not_fill_the_memory_and_do_not_change_decisions(node: Node) -> None:
    node.create(acl("t7"))
    for number in range(MAX_REMEMBERED_DECISIONS + 10):
        assert node.reads(f"t{number}") is (number == 7)
    assert len(node.access._decisions) <= MAX_REMEMBERED_DECISIONS
    node.reads("x" * 10_000)
    assert all(len(question[-1]) <= 249 for question in node.access._decisions)


def test_authorized_operations_are_bits_of_what_the_client_may_do(node: Node) -> None:
    node.create(acl(operation=READ), acl(operation=AclOperation.ALTER_CONFIGS))
    bits = node.access.authorized_operations(ALICE, TOPIC, "orders")
    allowed = {each for each in AclOperation if bits >> each & 1}
    assert allowed == {
        READ,
        AclOperation.DESCRIBE,
        AclOperation.ALTER_CONFIGS,
        AclOperation.DESCRIBE_CONFIGS,
    }


# --- the audit log ----------------------------------------------------------------------------


def test_a_denied_request_is_logged_with_everything_that_explains_it(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    denial = acl(permission=AclPermission.DENY)
    node.create(acl(), denial)
    CURRENT_API.set("Fetch")
    with caplog.at_level(logging.INFO, LOGGER):
        assert not node.reads()
        assert not node.reads("other")
    by_deny, by_default = lines(caplog, "denied")
    told = ("principal", "operation", "resource", "host", "api", "listener", "rule")
    assert [by_deny[field] for field in told] == [
        "User:alice", "READ", "TOPIC:orders", "10.0.0.1", "Fetch", "CLIENTS",
        "DENY User:alice READ TOPIC:LITERAL:orders from *",
    ]  # fmt: skip
    assert by_default["rule"] == "the resource has no ACL"


def test_allowed_requests_are_logged_at_debug_only(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.create(acl())
    with caplog.at_level(logging.INFO, LOGGER):
        assert node.reads()
    assert caplog.records == []
    with caplog.at_level(logging.DEBUG, LOGGER):
        assert node.reads()
    (line,) = lines(caplog, "allowed")
    assert line["rule"] == "ALLOW User:alice READ TOPIC:LITERAL:orders from *"


def test_filters_are_silent(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        assert not node.access.shows(ALICE, READ, TOPIC, "orders")
        node.access.authorized_operations(ALICE, TOPIC, "orders")
        node.access.allows_any(ALICE, WRITE, TOPIC)
    assert caplog.records == []


def test_of_several_operations_on_the_cluster_the_audit_log_has_the_one_that_decided(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    both = (ALTER, CLUSTER_ACTION)
    broker = replace(ALICE, listener="BROKERS")
    with caplog.at_level(logging.DEBUG, LOGGER):
        assert not node.access.allows_cluster(broker, *both)
        for operation in both:
            granted = acl("kafka-cluster", operation, type_=CLUSTER)
            node.create(granted)
            assert node.access.allows_cluster(broker, *both)
            node.delete(granted)
    assert [each["operation"] for each in lines(caplog, "denied")] == ["CLUSTER_ACTION"]
    allowed = [each["operation"] for each in lines(caplog, "allowed")]
    assert allowed == ["ALTER", "CLUSTER_ACTION"]


def test_cluster_action_is_denied_on_the_listeners_of_clients_whatever_the_acls_say(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.create(acl("kafka-cluster", CLUSTER_ACTION, type_=CLUSTER))
    with caplog.at_level(logging.INFO, LOGGER):
        assert not node.access.allows_cluster(ALICE, CLUSTER_ACTION)
    assert not node.access.shows_cluster(ALICE, CLUSTER_ACTION)
    assert node.access.shows_cluster(replace(ALICE, listener="BROKERS"), CLUSTER_ACTION)
    (line,) = lines(caplog, "denied")
    assert line["rule"] == Reason.WRONG_LISTENER.value


def test_a_flood_of_denied_requests_is_counted_and_not_logged(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        for _ in range(BURST_LINES + 5):
            node.reads()
        assert len(lines(caplog, "denied")) == BURST_LINES
        node.clock.advance(2)
        node.reads()
        assert lines(caplog, "denied")[-1]["left_out"] == 5
        for _ in range(3):
            node.reads()
        node.access.audit.report_left_out()
        node.access.audit.report_left_out()
    (report,) = lines(caplog, "lines were left out")
    assert (report["principal"], report["host"]) == ("User:alice", "10.0.0.1")
    assert report["left_out"] == 2


def test_a_client_that_guesses_names_is_one_source(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        for number in range(BURST_LINES + 5):
            guessed = replace(ALICE, principal=user(f"guess-{number}"))
            node.access.audit.log_login(guessed, "PLAIN", error="wrong user or password")
        node.access.audit.log_login(ALICE, "PLAIN")
        node.access.audit.report_left_out()
    assert len(lines(caplog, "login failed")) == BURST_LINES
    assert len(lines(caplog, "login")) == 1
    (report,) = lines(caplog, "lines were left out")
    assert (report["principal"], report["host"], report["left_out"]) == ("-", ALICE.host, 5)


def test_logins_and_changes_are_logged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    audit = node.access.audit
    with caplog.at_level(logging.INFO, LOGGER):
        audit.log_login(ALICE, "SCRAM-SHA-256")
        audit.log_login(ALICE, "PLAIN", error="wrong user or password")
        audit.log_change(ADMIN, ApiKey.CREATE_ACLS, "created an ACL", acl=str(acl()))
    assert lines(caplog, "login")[0]["mechanism"] == "SCRAM-SHA-256"
    assert lines(caplog, "login failed")[0]["error"] == "wrong user or password"
    (change,) = lines(caplog, "created an ACL")
    assert (change["principal"], change["acl"]) == ("User:admin", str(acl()))
