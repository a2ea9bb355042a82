"""`headrace acl` against a real broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.admin import acls
from headrace.testing import Broker
from support.cli.command import Cli

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ALICE = ("--allow-principal", "User:alice")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def cli(broker: Broker, tmp_path: Path) -> Cli:
    """The commands, and no ACLs."""
    cli = Cli(broker.bootstrap_servers, tmp_path)
    cli("acl", "delete", "--all", "--execute")
    return cli


def facts(cli: Cli, *words: str) -> list[dict[str, str]]:
    found = cli("acl", "list", *words, "--format", "json").facts
    assert isinstance(found, list)
    return found


def test_acls_are_created_listed_and_deleted(cli: Cli) -> None:
    created = cli.ok("acl", "create", *ALICE, "--operation", "read,describe", "--topic", "orders")
    assert created == (
        "created: allow User:alice to read topic orders\n"
        "created: allow User:alice to describe topic orders\n"
    )
    cli.ok("acl", "create", "--deny-principal", "User:*", "--operation", "all", "--group", "*",
           "--host", "10.0.0.9")  # fmt: skip
    table = [line.split() for line in cli.ok("acl", "list").splitlines()]
    assert table[0] == [
        "PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST",
    ]  # fmt: skip
    assert ["User:*", "deny", "all", "group", "*", "literal", "10.0.0.9"] in table
    assert len(table) == 4
    deleted = cli.ok("acl", "delete", "--topic", "orders", "--operation", "read", "--execute")
    assert deleted == "deleted: allow User:alice to read topic orders\n"
    assert [each["operation"] for each in facts(cli, "--topic", "orders")] == ["describe"]


def test_acls_are_listed_by_every_condition_and_by_what_applies_to_a_resource(cli: Cli) -> None:
    cli.ok("acl", "create", *ALICE, "--operation", "write", "--topic", "ord", "--prefixed")
    cli.ok("acl", "create", "--allow-principal", "User:bob", "--operation", "read", "-t", "orders")
    assert [each["principal"] for each in facts(cli, "--topic", "orders")] == ["User:bob"]
    matching = facts(cli, "--topic", "orders", "--pattern", "match")
    assert {each["principal"] for each in matching} == {"User:alice", "User:bob"}
    assert len(facts(cli, "--principal", "User:alice", "--principal", "User:bob")) == 2
    assert facts(cli, "--permission", "deny") == []
    assert [each["resource_name"] for each in facts(cli, "--pattern", "prefixed")] == ["ord"]


def test_a_deletion_without_execute_shows_its_plan_and_changes_nothing(cli: Cli) -> None:
    cli.ok("acl", "create", *ALICE, "--producer", "--topic", "orders")
    ended = cli("acl", "delete", "--principal", "User:alice")
    assert ended.code == 0
    assert "Add --execute to delete 3 ACLs." in ended.stderr
    assert len(facts(cli)) == 3


def test_everything_is_deleted_only_on_demand(cli: Cli) -> None:
    assert cli("acl", "delete", "--execute").code == 2
    assert cli("acl", "delete", "--pattern", "match", "--execute").code == 2
    assert cli("acl", "delete", "--all", "--topic", "orders", "--execute").code == 2
    ended = cli("acl", "delete", "--topic", "none", "--execute")
    assert (ended.code, ended.stderr) == (4, "headrace: no ACL matches\n")


def test_many_acls_go_in_several_requests(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "ACLS_PER_REQUEST", 2)
    topics = [word for index in range(5) for word in ("--topic", f"t{index}")]
    assert cli.ok("acl", "create", *ALICE, "--operation", "read", *topics).count("created") == 5
    assert len(facts(cli)) == 5
    assert cli.ok("acl", "delete", "--all", "--execute").count("deleted") == 5
    assert facts(cli) == []


def test_a_refused_acl_does_not_affect_the_others(cli: Cli) -> None:
    ended = cli("acl", "create", *ALICE, "--operation", "read", "-g", "x" * 2000, "-g", "billing")
    assert ended.code == 3
    assert ended.stdout == "created: allow User:alice to read group billing\n"
    assert "the maximum is 1024 (INVALID_REQUEST)" in ended.stderr
    assert [each["resource_name"] for each in facts(cli)] == ["billing"]


def test_check_names_the_rule_that_decides(cli: Cli) -> None:
    cli.ok("acl", "create", *ALICE, "--operation", "write", "--topic", "ord", "--prefixed")
    allowed = cli("acl", "check", "User:alice", "write", "topic:orders")
    assert allowed.code == 0
    assert "DECISION  allowed" in allowed.stdout
    assert "ACL       allow User:alice to write topic prefixed ord" in allowed.stdout
    implied = cli("acl", "check", "User:alice", "describe", "topic:orders", "--format", "json")
    assert implied.facts["acl"]["operation"] == "write"  # type: ignore[index]
    cli.ok("acl", "create", "--deny-principal", "User:*", "--operation", "all", "-t", "orders")
    denied = cli("acl", "check", "User:alice", "write", "topic:orders")
    assert denied.code == 1
    assert "ACL       deny User:* to all topic orders" in denied.stdout
    assert "super users are not visible here" in denied.stderr


def test_check_says_what_it_cannot_know(cli: Cli) -> None:
    nothing = cli("acl", "check", "User:alice", "read", "topic:orders")
    assert nothing.code == 1
    assert "REASON    the resource has no ACL" in nothing.stdout
    assert "allow.everyone.if.no.acl.found" in nothing.stderr
    cli.ok("acl", "create", *ALICE, "--operation", "read", "-t", "orders", "--host", "10.0.0.7")
    without = cli("acl", "check", "User:alice", "read", "topic:orders")
    assert without.code == 1
    assert "1 ACL for single hosts may decide otherwise" in without.stderr
    words = ("acl", "check", "User:alice", "read", "topic:orders", "--host", "10.0.0.7")
    assert cli(*words).code == 0


def test_a_broker_without_an_authorizer_says_so(bootstrap: str, tmp_path: Path) -> None:
    cli = Cli(bootstrap, tmp_path)
    listed = cli("acl", "list")
    assert listed.code == 1
    assert "No Authorizer is configured" in listed.stderr
    created = cli("acl", "create", *ALICE, "--operation", "read", "--topic", "orders")
    assert created.code == 1
    assert "SECURITY_DISABLED" in created.stderr
