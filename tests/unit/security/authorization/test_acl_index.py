"""The index follows every change of the ACLs."""

from collections.abc import Iterable
from random import Random

import pytest

from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.authorization.acl_index import AclIndex, comparable_host

TOPIC = AclResourceType.TOPIC
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


def acl(
    name: str,
    who: str = "User:alice",
    permission: AclPermission = ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(ResourcePattern(TOPIC, name, pattern), who, "*", AclOperation.READ, permission)


def covering(index: AclIndex, name: str) -> set[Acl]:
    acls = index.of_type(TOPIC)
    groups = () if acls is None else acls.covering(name)
    return {acl for group in groups for hosts in group.values() for acl in hosts}


MANY = [acl(f"t{number}", f"User:u{number % 7}") for number in range(1000)]


def test_after_one_of_several_acls_is_removed_the_others_still_apply() -> None:
    """CVE-2024-27309: when one of a resource's ACLs was removed, Kafka lost its DENY."""
    allowed, other, denied = acl("x"), acl("x", "User:bob"), acl("x", permission=DENY)
    for gone in (allowed, other):
        index = AclIndex([allowed, other, denied])
        index.remove(gone)
        assert covering(index, "x") == {allowed, other, denied} - {gone}
        assert denied in covering(index, "x")


def test_an_index_without_acls_of_a_type_has_none() -> None:
    index = AclIndex([acl("x"), acl("y", pattern=PatternType.PREFIXED)])
    for each in (acl("x"), acl("y", pattern=PatternType.PREFIXED)):
        index.remove(each)
    assert index.of_type(TOPIC) is None


def test_removing_an_acl_twice_or_one_that_is_not_there_changes_nothing() -> None:
    index = AclIndex([acl("x")])
    for other in (acl("y"), acl("x", "User:bob"), acl("x", permission=DENY)):
        index.remove(other)
    assert covering(index, "x") == {acl("x")}


def test_a_prefix_length_is_searched_until_its_last_prefix_is_gone() -> None:
    first, second = (acl(name, pattern=PatternType.PREFIXED) for name in ("aa", "ab"))
    index = AclIndex([first, second])
    index.remove(first)
    assert covering(index, "ab-1") == {second}
    index.remove(second)
    assert covering(index, "ab-1") == set()


@pytest.mark.parametrize(
    "after",
    [
        MANY,
        [*MANY, acl("new")],
        MANY[:-1],
        MANY[1:],
        MANY[:300] + MANY[301:],
        [*MANY[:255], *MANY[257:700], *MANY[800:], acl("new"), acl("newer")],
        [*MANY[1:], MANY[0]],
        [],
        Random(1).sample(MANY, len(MANY)),
        [Acl(*each) for each in reversed(MANY)],
        [acl("new")],
    ],
    ids=lambda acls: str(len(acls)),
)
def test_the_difference_between_two_images_makes_the_same_index_as_the_later_one(
    after: list[Acl],
) -> None:
    index = AclIndex(MANY)
    index.apply_difference(dict.fromkeys(MANY), dict.fromkeys(after))
    assert contents(index, [*MANY, acl("new"), acl("newer")]) == set(after)


def contents(index: AclIndex, candidates: Iterable[Acl]) -> set[Acl]:
    names = {candidate.pattern.name for candidate in candidates}
    return set().union(*(covering(index, name) for name in names))


@pytest.mark.parametrize(
    ("written", "compared"),
    [
        ("*", "*"),
        ("10.0.0.1", "10.0.0.1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth0"),
        ("not:an:address", "not:an:address"),
        ("example.org", "example.org"),
    ],
)
def test_addresses_are_compared_as_the_kernel_writes_them(written: str, compared: str) -> None:
    assert comparable_host(written) == compared
