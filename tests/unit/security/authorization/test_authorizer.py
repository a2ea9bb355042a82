"""The rules of Kafka's StandardAuthorizer, one by one; the property tests combine them."""

import pytest

from headrace.security.authorization.acl import (
    SUPPORTED_OPERATIONS,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.authorization.acl_index import AclIndex
from headrace.security.authorization.authorizer import Authorizer, Decision, Reason
from headrace.security.principal import Principal, user

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL
DESCRIBE = AclOperation.DESCRIBE
ALICE = user("alice")
HOST = "10.0.0.1"


def rule(
    permission: AclPermission,
    name: str = "orders",
    operation: AclOperation = READ,
    *,
    who: str = "User:alice",
    pattern: PatternType = LITERAL,
    host: str = "*",
    type_: AclResourceType = TOPIC,
) -> Acl:
    return Acl(ResourcePattern(type_, name, pattern), who, host, operation, permission)


def allow(name: str = "orders", operation: AclOperation = READ, **other: object) -> Acl:
    return rule(AclPermission.ALLOW, name, operation, **other)  # type: ignore[arg-type]


def deny(name: str = "orders", operation: AclOperation = READ, **other: object) -> Acl:
    return rule(AclPermission.DENY, name, operation, **other)  # type: ignore[arg-type]


def decide(
    *acls: Acl,
    operation: AclOperation = READ,
    name: str = "orders",
    principal: Principal = ALICE,
    host: str = HOST,
    open_without_acl: bool = False,
) -> Decision:
    authorizer = Authorizer(AclIndex(acls), allow_if_no_acl=open_without_acl)
    return authorizer.decide(principal, host, operation, TOPIC, name)


def test_without_any_acl_a_resource_is_closed_unless_the_setting_opens_it() -> None:
    assert decide() == Decision(False, Reason.NO_ACL_ON_RESOURCE)
    assert decide(open_without_acl=True) == Decision(True, Reason.NO_ACL_ON_RESOURCE)


@pytest.mark.parametrize(
    "other", [allow(who="User:bob"), allow(operation=WRITE), allow(host="10.0.0.2")]
)
def test_an_acl_that_does_not_match_closes_a_resource_that_was_open_without_acls(
    other: Acl,
) -> None:
    assert decide(other, open_without_acl=True) == Decision(False, Reason.NO_MATCHING_ACL)


@pytest.mark.parametrize(
    "acl",
    [
        allow(),
        allow(who="User:*"),
        allow("*"),
        allow("ord", pattern=PREFIXED),
        allow("orders", pattern=PREFIXED),
        allow(operation=ALL),
        allow(host=HOST),
    ],
)
def test_a_matching_allow_allows_and_is_named_as_the_reason(acl: Acl) -> None:
    assert decide(acl) == Decision(True, Reason.ALLOWED_BY_ACL, acl)


@pytest.mark.parametrize(
    "acl",
    [
        allow("order"),
        allow("orders-2"),
        allow("orders-", pattern=PREFIXED),
        allow("*", pattern=PREFIXED),
        allow(who="Group:alice"),
        allow(type_=GROUP),
    ],
)
def test_an_allow_for_something_else_does_not_allow(acl: Acl) -> None:
    assert not decide(acl).allowed


@pytest.mark.parametrize(
    "denial",
    [
        deny(),
        deny("*"),
        deny("o", pattern=PREFIXED),
        deny(who="User:*"),
        deny(operation=ALL),
        deny(host=HOST),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_matching_deny_wins_over_every_allow(denial: Acl, *, first: bool) -> None:
    allows = [allow(), allow("*"), allow("ord", pattern=PREFIXED), allow(operation=ALL)]
    acls = [denial, *allows] if first else [*allows, denial]
    assert decide(*acls) == Decision(False, Reason.DENIED_BY_ACL, denial)


@pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_an_allow_implies_describe_and_a_deny_does_not(operation: AclOperation) -> None:
    assert decide(allow(operation=operation), operation=DESCRIBE).allowed
    both = decide(allow(operation=DESCRIBE), deny(operation=operation), operation=DESCRIBE)
    assert both.allowed


def test_alter_configs_implies_describe_configs_and_nothing_else_does() -> None:
    wanted = AclOperation.DESCRIBE_CONFIGS
    implying = {
        operation
        for operation in SUPPORTED_OPERATIONS[TOPIC]
        if decide(allow(operation=operation), operation=wanted).allowed
    }
    assert implying == {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}


def test_describe_does_not_imply_what_implies_it() -> None:
    assert not decide(allow(operation=DESCRIBE), operation=READ).allowed


def test_a_super_user_passes_every_deny_also_with_a_delegation_token() -> None:
    authorizer = Authorizer(AclIndex([deny("*", who="User:*")]), frozenset({ALICE}))
    for token in (False, True):
        principal = ALICE._replace(token_authenticated=token)
        decided = authorizer.decide(principal, HOST, WRITE, TOPIC, "orders")
        assert decided == Decision(True, Reason.SUPER_USER)
        assert authorizer.decide_for_any(principal, HOST, READ, TOPIC)


def test_a_login_with_a_delegation_token_has_the_rights_of_its_owner() -> None:
    assert decide(allow(), principal=ALICE._replace(token_authenticated=True)).allowed


def test_before_the_acls_are_known_only_super_users_pass() -> None:
    authorizer = Authorizer(None, frozenset({user("admin")}), allow_if_no_acl=True)
    assert authorizer.decide(user("admin"), HOST, READ, TOPIC, "orders").allowed
    decided = authorizer.decide(ALICE, HOST, READ, TOPIC, "orders")
    assert decided == Decision(False, Reason.NOT_LOADED)
    assert not authorizer.decide_for_any(ALICE, HOST, READ, TOPIC)


@pytest.mark.parametrize(
    "host", ["0:0:0:0:0:0:0:1", "::1", "0000:0000:0000:0000:0000:0000:0000:0001"]
)
def test_the_address_of_a_deny_may_be_written_in_any_form(host: str) -> None:
    assert not decide(allow(), deny(host=host), host="::1").allowed


def test_an_ipv4_address_in_ipv6_form_is_the_ipv4_address() -> None:
    assert not decide(allow(), deny(host="::FFFF:10.0.0.1")).allowed


# --- any resource of a type -------------------------------------------------------------------


def may_write_any(*acls: Acl, host: str = HOST, open_without_acl: bool = False) -> bool:
    authorizer = Authorizer(AclIndex(acls), allow_if_no_acl=open_without_acl)
    return authorizer.decide_for_any(ALICE, host, WRITE, TOPIC)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([allow(operation=WRITE)], True),
        ([allow(operation=ALL, who="User:*")], True),
        ([allow(operation=READ)], False),
        ([allow(operation=WRITE, type_=GROUP)], False),
        ([allow(operation=WRITE, host="10.0.0.2")], False),
        # A DENY of the same literal name covers a literal ALLOW, not a prefixed one.
        ([allow("a", WRITE), deny("a", WRITE)], False),
        ([allow("a", WRITE), deny("a", ALL, who="User:*")], False),
        ([allow("a", WRITE), deny("a", READ)], True),
        ([allow("a", WRITE), deny("a", WRITE, host="10.0.0.2")], True),
        ([allow("a", WRITE), deny("a", WRITE, who="User:bob")], True),
        ([allow("a", WRITE, pattern=PREFIXED), deny("a", WRITE)], True),
        # A prefix covers every name and every longer prefix that begins with it.
        ([allow("ab", WRITE), deny("a", WRITE, pattern=PREFIXED)], False),
        ([allow("a", WRITE), deny("a", WRITE, pattern=PREFIXED)], False),
        ([allow("ab", WRITE, pattern=PREFIXED), deny("a", WRITE, pattern=PREFIXED)], False),
        ([allow("a", WRITE, pattern=PREFIXED), deny("ab", WRITE, pattern=PREFIXED)], True),
        ([allow("b", WRITE), allow("a", WRITE), deny("a", WRITE, pattern=PREFIXED)], True),
        # An ALLOW of everything is covered only by a DENY of everything.
        ([allow("*", WRITE), deny("a", WRITE, pattern=PREFIXED)], True),
        ([allow("*", WRITE), deny("*", WRITE)], False),
        ([allow("a", WRITE), deny("*", WRITE, who="User:*")], False),
        ([allow("a", WRITE), deny("*", READ)], True),
    ],
)  # fmt: skip
def test_an_allow_counts_unless_a_deny_covers_all_its_resources(
    acls: list[Acl], *, expected: bool
) -> None:
    assert may_write_any(*acls) is expected


def test_with_open_resources_any_may_be_written_unless_an_acl_covers_all() -> None:
    assert may_write_any(open_without_acl=True)
    assert may_write_any(deny("a", WRITE, pattern=PREFIXED), open_without_acl=True)
    assert not may_write_any(deny("*", WRITE), open_without_acl=True)
    assert not may_write_any(allow("*", WRITE, who="User:bob"), open_without_acl=True)
