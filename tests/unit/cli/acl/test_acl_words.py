"""ACLs on the command line: the words of Kafka's tools are understood, others are refused."""

import pytest

from headrace.cli.acl.acl_words import (
    check_operation,
    facts_of,
    parse_host,
    parse_operation,
    parse_operations,
    parse_principal_word,
    parse_resource,
)
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.operations.acl_text import rule_of
from headrace.security.authorization.acl import (
    SUPPORTED_OPERATIONS,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)

TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER


def acl(
    name: str = "orders",
    *,
    type_: AclResourceType = TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> Acl:
    resource = ResourcePattern(type_, name, pattern)
    return Acl(resource, "User:alice", host, AclOperation.READ, AclPermission.ALLOW)


@pytest.mark.parametrize(
    "word", ["describe-configs", "DescribeConfigs", "describe_configs", "DESCRIBE_CONFIGS"]
)
def test_an_operation_may_be_written_as_in_kafkas_tools(word: str) -> None:
    assert parse_operation(word) is AclOperation.DESCRIBE_CONFIGS


def test_several_operations_may_be_one_word() -> None:
    words = ["read,write", "Read", "describe"]
    expected = [AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE]
    assert parse_operations(words) == expected


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("reed", "unknown operation 'reed'; did you mean read?"),
        ("any", "unknown operation 'any'; there are all, read, write, create"),
    ],
)
def test_an_unknown_operation_is_refused_with_what_there_is(word: str, message: str) -> None:
    with pytest.raises(CommandFailed, match="unknown operation") as failed:
        parse_operation(word)
    assert str(failed.value).startswith(message)
    assert failed.value.code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("topic:orders", (TOPIC, "orders")),
        ("Topic:a:b", (TOPIC, "a:b")),
        ("transactional-id:x", (AclResourceType.TRANSACTIONAL_ID, "x")),
        ("TransactionalId:x", (AclResourceType.TRANSACTIONAL_ID, "x")),
        ("user:User:alice", (AclResourceType.USER, "User:alice")),
        ("cluster", (CLUSTER, "kafka-cluster")),
        ("cluster:kafka-cluster", (CLUSTER, "kafka-cluster")),
    ],
)
def test_a_resource_is_a_type_and_a_name(word: str, expected: object) -> None:
    assert parse_resource(word) == expected


@pytest.mark.parametrize("word", ["orders", "topic:", ":orders", "table:orders", "cluster:other"])
def test_another_resource_is_refused(word: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        parse_resource(word)
    assert failed.value.code is ExitCode.USAGE


@pytest.mark.parametrize("word", ["alice", "User:", ":alice", ""])
def test_a_principal_without_a_type_or_a_name_is_refused(word: str) -> None:
    with pytest.raises(CommandFailed, match="such as User:alice"):
        parse_principal_word(word)


def test_a_host_is_an_address_because_brokers_resolve_no_names() -> None:
    for word in ("*", "10.0.0.1", "2001:db8::1"):
        assert parse_host(word) == word
    with pytest.raises(CommandFailed, match="not an IP address"):
        parse_host("client.example.org")


@pytest.mark.parametrize("type_", SUPPORTED_OPERATIONS)
def test_operations_are_checked_against_the_type(type_: AclResourceType) -> None:
    check_operation(AclOperation.ALL, type_)
    for operation in SUPPORTED_OPERATIONS[type_]:
        check_operation(operation, type_)
    with pytest.raises(CommandFailed, match="has no operation"):
        unsupported = set(AclOperation) - SUPPORTED_OPERATIONS[type_] - {AclOperation.ALL}
        check_operation(max(unsupported), type_)


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        (acl(), "allow User:alice to read topic orders"),
        (acl("ord", pattern=PatternType.PREFIXED), "allow User:alice to read topic prefixed ord"),
        (acl("kafka-cluster", type_=CLUSTER), "allow User:alice to read cluster"),
        (acl(host="10.0.0.1"), "allow User:alice to read topic orders from 10.0.0.1"),
    ],
)
def test_an_acl_is_a_sentence(shown: Acl, sentence: str) -> None:
    assert rule_of(shown) == sentence


def test_the_facts_of_an_acl_are_words() -> None:
    assert facts_of(acl("t", type_=AclResourceType.TRANSACTIONAL_ID)) == {
        "principal": "User:alice",
        "permission": "allow",
        "operation": "read",
        "resource_type": "transactional-id",
        "resource_name": "t",
        "pattern_type": "literal",
        "host": "*",
    }
