"""ACLs, as Kafka's own AclCommand creates, lists and removes them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from headrace.security.authorization.acl_filter import ANY_ACL, AclFilter
from support.brokers.processes import BrokerProcess
from support.cli.command import Cli
from support.clients.java import KafkaNode, run
from support.wire.acls import create_acls, delete_acls, describe_acls, listed, topic_acl
from support.wire.connection import Wire

ACLS = "org.apache.kafka.tools.AclCommand"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
FILTERS = [
    ANY_ACL,
    AclFilter(AclResourceType.TOPIC, "orders"),
    AclFilter(AclResourceType.TOPIC, "orders", PatternType.MATCH),
    AclFilter(AclResourceType.TOPIC, "*", PatternType.MATCH),
    AclFilter(AclResourceType.TOPIC, "*", PatternType.LITERAL),
    AclFilter(pattern_type=PatternType.PREFIXED),
    AclFilter(principal="User:*"),
    AclFilter(principal="User:nobody"),
    AclFilter(operation=AclOperation.ALL),
    AclFilter(permission=AclPermission.DENY, host="*"),
    AclFilter(AclResourceType.CLUSTER),
]
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


@pytest.fixture(scope="module")
def servers(kafka_lib: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("acls") / "broker"
    with BrokerProcess(home, settings=AUTHORIZER) as broker:
        yield broker.bootstrap_servers


def tool(servers: str, *words: str, stdin: str | None = None) -> str:
    return run(ACLS, "--bootstrap-server", servers, *words, stdin=stdin)


def acls_of(servers: str) -> set[Acl]:
    with Wire(servers) as wire:
        return listed(describe_acls(wire))


def test_kafkas_tool_adds_lists_and_removes_acls(servers: str) -> None:
    added = tool(servers, "--add", "--allow-principal", "User:alice", "--producer",
                 "--topic", "ord", "--resource-pattern-type", "prefixed")  # fmt: skip
    assert "resourceType=TOPIC, name=ord, patternType=PREFIXED" in added
    tool(servers, "--add", "--deny-principal", "User:*", "--deny-host", "10.0.0.9",
         "--operation", "Read", "--topic", "orders")  # fmt: skip
    producer = {
        topic_acl("ord", operation=operation, prefixed=True)
        for operation in (WRITE, DESCRIBE, AclOperation.CREATE)
    }
    denied = topic_acl("orders", "User:*", READ, AclPermission.DENY, host="10.0.0.9")
    assert acls_of(servers) == {*producer, denied}
    shown = tool(servers, "--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert "principal=User:*, host=10.0.0.9, operation=READ, permissionType=DENY" in shown
    assert "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW" in shown
    tool(servers, "--remove", "--force", "--deny-principal", "User:*", "--deny-host", "10.0.0.9",
         "--operation", "Read", "--topic", "orders")  # fmt: skip
    assert acls_of(servers) == producer
    tool(servers, "--remove", "--force", "--topic", "ord", "--resource-pattern-type", "prefixed")
    assert acls_of(servers) == set()


@pytest.fixture(scope="module")
def kafka(kafka_lib: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    home = tmp_path_factory.mktemp("kafka-acls") / "node"
    with KafkaNode(home, settings=AUTHORIZER) as node:
        yield node


def test_kafka_answers_the_same_to_creations_filters_and_errors(
    servers: str, kafka: KafkaNode
) -> None:
    here, there = (answers_of(each) for each in (servers, kafka.bootstrap_servers))
    for ours, theirs in zip(here, there, strict=True):
        assert ours == theirs


def test_headraces_commands_work_with_kafka(kafka: KafkaNode, tmp_path: Path) -> None:
    cli = Cli(kafka.bootstrap_servers, tmp_path)
    cli.ok(
        "acl", "create", "--allow-principal", "User:shop", "--producer", "-t", "s-", "--prefixed"
    )
    listed = cli("acl", "list", "--principal", "User:shop", "--format", "json").facts
    assert isinstance(listed, list)
    assert {each["operation"] for each in listed} == {"write", "describe", "create"}
    assert cli("acl", "check", "User:shop", "write", "topic:s-1").code == 0
    assert cli("acl", "check", "User:shop", "read", "topic:s-1").code == 1
    assert cli.ok("acl", "delete", "--principal", "User:shop", "--execute").count("deleted") == 3
    assert cli("acl", "list", "--principal", "User:shop", "--format", "json").facts == []


def answers_of(servers: str) -> list[object]:
    """What a broker returns to a number of requests, in a form that can be compared."""
    cluster = AclResourceType.CLUSTER
    creations = [
        topic_acl("orders"),
        topic_acl("orders"),
        topic_acl("ord", "User:*", prefixed=True),
        topic_acl("*", "User:bob", AclOperation.ALL, AclPermission.DENY),
        topic_acl("kafka-cluster", type_=cluster, operation=AclOperation.ALTER),
        topic_acl("other", type_=cluster),
        topic_acl(""),
        topic_acl("orders", "alice"),
        topic_acl("orders", "User:"),
        topic_acl("a/b", type_=AclResourceType.GROUP),
    ]
    found: list[object] = []
    with Wire(servers) as wire:
        for version in range(1, 4):
            delete_acls(wire, [FILTERS[0]])
            created = create_acls(wire, creations, version)
            found.append([(each.error_code, each.error_message) for each in created])
            found += [listed(describe_acls(wire, each, version)) for each in FILTERS]
            found += [
                (
                    [each.error_code, each.error_message],
                    {(match.resource_name, match.principal) for match in each.matching_acls},
                )
                for each in delete_acls(wire, FILTERS[1:], version)
            ]
    return found
