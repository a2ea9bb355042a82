"""Filters match as Kafka's AclBindingFilter does."""

import pytest

from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.authorization.acl_filter import ANY_ACL, AclFilter

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH


def acl(name: str, pattern: PatternType = LITERAL) -> Acl:
    resource = ResourcePattern(TOPIC, name, pattern)
    return Acl(resource, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW)


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (ANY_ACL, True),
        (AclFilter(TOPIC), True),
        (AclFilter(GROUP), False),
        (AclFilter(name="orders"), True),
        (AclFilter(name="order"), False),
        (AclFilter(name="orders", pattern_type=LITERAL), True),
        (AclFilter(name="orders", pattern_type=PREFIXED), False),
        (AclFilter(name="orders", pattern_type=MATCH), True),
        (AclFilter(principal="User:alice"), True),
        (AclFilter(principal="User:*"), False),
        (AclFilter(host="*"), True),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(operation=AclOperation.READ), True),
        (AclFilter(operation=AclOperation.DESCRIBE), False),
        (AclFilter(operation=AclOperation.ALL), False),
        (AclFilter(permission=AclPermission.DENY), False),
    ],
)
def test_every_part_of_a_filter_must_match(wanted: AclFilter, *, matches: bool) -> None:
    assert wanted.matches(acl("orders")) is matches


def test_match_finds_the_acls_that_apply_to_a_resource() -> None:
    wanted = AclFilter(TOPIC, "orders", MATCH)
    assert wanted.matches(acl("*"))
    assert wanted.matches(acl("ord", PREFIXED))
    assert not wanted.matches(acl("orders-2", PREFIXED))
    assert not wanted.matches(acl("*", PREFIXED))
    assert not AclFilter(TOPIC, "orders").matches(acl("*"))


def test_a_filter_with_every_part_matches_exactly_one_acl() -> None:
    exact = AclFilter(
        TOPIC, "orders", LITERAL, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW
    )
    assert exact.exact_acl() == acl("orders")
    for part, value in ANY_ACL._asdict().items():
        assert exact._replace(**{part: value}).exact_acl() is None, part
    assert exact._replace(pattern_type=MATCH).exact_acl() is None


def test_an_unknown_code_is_named_as_kafka_names_it() -> None:
    assert ANY_ACL.unknown_part is None
    assert AclFilter(AclResourceType.UNKNOWN).unknown_part == "patternFilter"
    assert AclFilter(pattern_type=PatternType.UNKNOWN).unknown_part == "patternFilter"
    assert AclFilter(operation=AclOperation.UNKNOWN).unknown_part == "entryFilter"
    assert AclFilter(permission=AclPermission.UNKNOWN).unknown_part == "entryFilter"
