"""ACLs are created and deleted by Kafka's rules, and within limits."""

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import AclCreated
from headrace.controller import acl_changes
from headrace.controller.acl_changes import create_acls, delete_acls
from headrace.protocol.errors import ErrorCode
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.authorization.acl_filter import ANY_ACL, AclFilter
from support.brokers.controllers import controller

TOPIC = AclResourceType.TOPIC
LITERAL = PatternType.LITERAL
READ, ALLOW = AclOperation.READ, AclPermission.ALLOW
NO_COLON = "(no colon is present separating the principal type from the principal name)"


def acl(
    name: str = "orders",
    who: str = "User:alice",
    *,
    type_: AclResourceType = TOPIC,
    pattern: PatternType = LITERAL,
    operation: AclOperation = READ,
    permission: AclPermission = ALLOW,
) -> Acl:
    return Acl(ResourcePattern(type_, name, pattern), who, "*", operation, permission)


def image_of(*acls: Acl) -> MetadataImage:
    return MetadataImage().apply(map(AclCreated, acls))


def exactly(each: Acl) -> AclFilter:
    type_, name, pattern = each.pattern
    return AclFilter(
        type_, name, pattern, each.principal, each.host, each.operation, each.permission
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (acl("orders", type_=AclResourceType.CLUSTER),
         "The only valid name for the CLUSTER resource is kafka-cluster"),
        (acl(""), "Invalid empty resource name"),
        (acl(type_=AclResourceType.UNKNOWN), "Invalid resourceType UNKNOWN"),
        (acl(type_=AclResourceType.ANY), "Invalid resourceType ANY"),
        (acl(pattern=PatternType.UNKNOWN), "Invalid patternType UNKNOWN"),
        (acl(pattern=PatternType.ANY), "Invalid patternType ANY"),
        (acl(pattern=PatternType.MATCH), "Invalid patternType MATCH"),
        (acl(operation=AclOperation.UNKNOWN), "Invalid operation UNKNOWN"),
        (acl(operation=AclOperation.ANY), "Invalid operation ANY"),
        (acl(permission=AclPermission.UNKNOWN), "Invalid permissionType UNKNOWN"),
        (acl(permission=AclPermission.ANY), "Invalid permissionType ANY"),
        (acl(who="alice"), f"Could not parse principal from `alice` {NO_COLON}"),
        (acl(who=""), f"Could not parse principal from `` {NO_COLON}"),
        (acl("x" * 1025), "The resource name has 1025 characters; the maximum is 1024"),
        (acl(who="User:" + "x" * 1020), "The principal has 1025 characters; the maximum is 1024"),
    ],
)  # fmt: skip
def test_an_acl_that_cannot_exist_is_refused_alone(bad: Acl, message: str) -> None:
    result = create_acls(MetadataImage(), [bad, acl()])
    assert result.results[0] == (ErrorCode.INVALID_REQUEST, message)
    assert result.results[1].code == ErrorCode.NONE
    assert result.records == (AclCreated(acl()),)


def test_valid_acls_of_every_type_are_created() -> None:
    acls = [
        acl("kafka-cluster", type_=AclResourceType.CLUSTER, operation=AclOperation.ALL),
        acl("a/b", type_=AclResourceType.GROUP),
        acl("User:carol", type_=AclResourceType.USER, operation=AclOperation.CREATE_TOKENS),
        acl("*", "User:*", permission=AclPermission.DENY),
        acl("ord", "Group:with:colons", pattern=PatternType.PREFIXED),
    ]
    result = create_acls(MetadataImage(), acls)
    assert [error.code for error in result.results] == [ErrorCode.NONE] * 5
    assert result.records == tuple(map(AclCreated, acls))


def test_an_acl_that_exists_or_comes_twice_needs_no_record() -> None:
    result = create_acls(image_of(acl()), [acl(), acl("new"), acl("new")])
    assert [error.code for error in result.results] == [ErrorCode.NONE] * 3
    assert result.records == (AclCreated(acl("new")),)


@pytest.mark.parametrize(
    "name", ["a/b", ".", "..", "a\x00", "a\x1f", "\x7f", "\ufff0", "\U0001f600"]
)
def test_a_name_that_cannot_be_a_znode_is_refused_with_zookeeper(name: str) -> None:
    bad = acl(name, type_=AclResourceType.GROUP)
    (error,) = create_acls(MetadataImage(), [bad], in_znodes=True).results
    assert error.code == ErrorCode.INVALID_REQUEST
    assert error.message is not None and "ZooKeeper" in error.message
    (error,) = create_acls(MetadataImage(), [bad]).results
    assert error.code == ErrorCode.NONE


def test_the_controller_of_a_cluster_checks_the_names_of_znodes() -> None:
    slash = [acl("a/b")]
    (error,) = controller(static={"zookeeper.connect": "zk:2181"}).create_acls(slash).results
    assert error.code == ErrorCode.INVALID_REQUEST
    (error,) = controller().create_acls(slash).results
    assert error.code == ErrorCode.NONE


def test_too_many_acls_in_one_request_are_all_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_changes, "MAX_CHANGES_PER_REQUEST", 2)
    result = create_acls(MetadataImage(), [acl("a"), acl("b"), acl("c")])
    assert result.records == ()
    assert {error.code for error in result.results} == {ErrorCode.POLICY_VIOLATION}
    assert len(result.results) == 3


def test_a_cluster_has_a_maximum_number_of_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_changes, "MAX_ACLS", 2)
    image = image_of(acl("a"))
    result = create_acls(image, [acl("b"), acl("c"), acl("a")])
    codes = [error.code for error in result.results]
    assert codes == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]
    assert result.records == (AclCreated(acl("b")),)


# --- deletion ---------------------------------------------------------------------------------


def test_each_filter_returns_what_it_matched_and_an_acl_is_deleted_once() -> None:
    a, b = acl("a"), acl("b")
    result = delete_acls(image_of(a, b), [exactly(a), AclFilter(TOPIC), exactly(acl("none"))])
    assert [list(each.acls) for each in result.results] == [[a], [a, b], []]
    assert {each.error.code for each in result.results} == {ErrorCode.NONE}
    image = image_of(a, b).apply(result.records)
    assert (len(result.records), dict(image.acls)) == (2, {})


def test_a_filter_with_an_unknown_code_is_refused_alone() -> None:
    unknown = AclFilter(AclResourceType.UNKNOWN, name="a")
    refused, deleted = delete_acls(image_of(acl("a")), [unknown, ANY_ACL]).results
    assert refused.error == (ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    assert list(deleted.acls) == [acl("a")]


def test_a_request_deletes_a_limited_number_of_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_changes, "MAX_CHANGES_PER_REQUEST", 2)
    image = image_of(acl("a"), acl("b"), acl("c"))
    (refused,) = delete_acls(image, [ANY_ACL]).results
    assert refused.error == (
        ErrorCode.INVALID_REQUEST,
        "Cannot remove more than 2 acls in a single delete operation.",
    )
    too_many = delete_acls(image, [exactly(acl("a"))] * 3)
    assert {each.error.code for each in too_many.results} == {ErrorCode.POLICY_VIOLATION}
    assert too_many.records == ()


def test_filters_that_compare_with_every_acl_are_limited_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acl_changes, "MAX_COMPARISONS", 6)
    image = image_of(acl("a"), acl("b"))
    wide = AclFilter(host="none")
    named = AclFilter(name="none")
    others = AclFilter(principal="User:none")
    filters = [wide, wide, wide, wide, *[named, others] * 5]
    codes = [each.error.code for each in delete_acls(image, filters).results]
    assert codes == [0, 0, 0, ErrorCode.POLICY_VIOLATION, *[0] * 10]


@pytest.mark.parametrize("name", ["a", "ab", "abc", "*", "x", "", "a" * 2000])
@pytest.mark.parametrize("pattern", [PatternType.ANY, PatternType.MATCH, LITERAL])
@pytest.mark.parametrize("principal", [None, "User:alice", "User:none"])
def test_a_deletion_finds_what_a_listing_finds(
    name: str, pattern: PatternType, principal: str | None
) -> None:
    acls = [
        acl(each, who, pattern=kind)
        for each in ("a", "ab", "*", "xx")
        for who in ("User:alice", "User:bob")
        for kind in (LITERAL, PatternType.PREFIXED)
    ]
    for wanted in (
        AclFilter(TOPIC, name, pattern, principal),
        AclFilter(name=name, pattern_type=pattern, principal=principal),
        AclFilter(pattern_type=pattern, principal=principal),
    ):
        (result,) = delete_acls(image_of(*acls), [wanted]).results
        assert set(result.acls) == {each for each in acls if wanted.matches(each)}


def test_deleting_one_of_several_acls_keeps_the_deny() -> None:
    """CVE-2024-27309: when one of a resource's ACLs was removed, Kafka lost its DENY."""
    acls = [acl("x"), acl("x", "User:bob"), acl("x", permission=AclPermission.DENY)]
    image = image_of(*acls)
    image = image.apply(delete_acls(image, [exactly(acls[1])]).records)
    assert list(image.acls) == [acls[0], acls[2]]
