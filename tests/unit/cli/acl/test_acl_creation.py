"""The ACLs that the options of `headrace acl create` stand for."""

import pytest

from headrace.cli.acl.acl_creation import Principals, Roles, acls_of
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.operations.acl_text import rule_of
from headrace.security.authorization.acl import AclOperation, AclResourceType, PatternType

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
CLUSTER, TXN = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID
READ, WRITE = AclOperation.READ, AclOperation.WRITE
ALICE = Principals(["User:alice"], [])
ORDERS = [(TOPIC, "orders")]


def rules(*args: object, **options: object) -> set[str]:
    return set(map(rule_of, acls_of(*args, **options)))  # type: ignore[arg-type]


def test_there_is_an_acl_for_each_principal_operation_host_and_resource() -> None:
    principals = Principals(["User:a"], ["User:b"], ["10.0.0.1", "10.0.0.2"])
    acls = acls_of([*ORDERS, (TOPIC, "more")], [READ, WRITE], principals)
    assert len(set(acls)) == len(acls) == 2 * 2 * 2 * 2
    assert "deny User:b to write topic more from 10.0.0.2" in map(rule_of, acls)


def test_a_prefix_applies_to_names_and_not_to_the_cluster() -> None:
    named = [*ORDERS, (CLUSTER, "kafka-cluster")]
    options = {"pattern_type": PatternType.PREFIXED}
    assert rules(named, [AclOperation.CREATE], ALICE, **options) == {
        "allow User:alice to create topic prefixed orders",
        "allow User:alice to create cluster",
    }


def test_a_producer_and_a_consumer_get_the_operations_of_kafkas_tool() -> None:
    named = [*ORDERS, (TXN, "tx")]
    assert rules(named, [], ALICE, roles=Roles(producer=True, idempotent=True)) == {
        "allow User:alice to write topic orders",
        "allow User:alice to describe topic orders",
        "allow User:alice to create topic orders",
        "allow User:alice to write transactional-id tx",
        "allow User:alice to describe transactional-id tx",
        "allow User:alice to idempotent-write cluster",
    }
    named = [*ORDERS, (GROUP, "billing")]
    assert rules(named, [], ALICE, roles=Roles(consumer=True)) == {
        "allow User:alice to read topic orders",
        "allow User:alice to describe topic orders",
        "allow User:alice to read group billing",
    }
    both = rules(named, [], ALICE, roles=Roles(producer=True, consumer=True))
    assert "allow User:alice to read group billing" in both
    assert "allow User:alice to write topic orders" in both


@pytest.mark.parametrize(
    ("resources", "operations", "principals", "options", "message"),
    [
        (ORDERS, [READ], Principals([], []), {}, "give --allow-principal or --deny-principal"),
        ([], [READ], ALICE, {}, "give a resource"),
        (ORDERS, [], ALICE, {}, "give --operation"),
        (ORDERS, [AclOperation.CLUSTER_ACTION], ALICE, {}, "topic has no operation cluster-action"),
        (ORDERS, [], ALICE, {"roles": Roles(consumer=True)}, "--consumer needs --group"),
        ([(GROUP, "g")], [], ALICE, {"roles": Roles(consumer=True)}, "need --topic"),
        ([*ORDERS, (GROUP, "g")], [], ALICE, {"roles": Roles(producer=True)}, "--group has no use"),
        (ORDERS, [READ], ALICE, {"roles": Roles(producer=True)}, "allow fixed operations"),
        (ORDERS, [], Principals([], ["User:b"]), {"roles": Roles(producer=True)}, "fixed"),
        (ORDERS, [READ], ALICE, {"roles": Roles(idempotent=True)}, "belongs to --producer"),
        ([*ORDERS, (GROUP, "g")], [], ALICE, {"roles": Roles(consumer=True, idempotent=True)},
         "belongs to --producer"),
        ([(TOPIC, "*")], [READ], ALICE, {"pattern_type": PatternType.PREFIXED}, "leave it out"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_together_are_refused(
    resources: object, operations: object, principals: object, options: dict[str, object],
    message: str,
) -> None:  # fmt: skip
    with pytest.raises(CommandFailed, match=message) as failed:
        acls_of(resources, operations, principals, **options)  # type: ignore[arg-type]
    assert failed.value.code is ExitCode.USAGE
