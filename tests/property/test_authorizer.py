"""The authorizer decides as a naive model does that looks at every ACL."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.authorization.acl_index import AclIndex
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.principal import Principal, parse_principal

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
NAMES = ["a", "ab", "abc", "b", "*"]
PRINCIPALS = ["User:alice", "User:bob", "Group:alice"]
HOSTS = ["10.0.0.1", "10.0.0.2"]
OPERATIONS = [
    AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS,
]  # fmt: skip

acls = st.builds(
    Acl,
    st.builds(
        ResourcePattern,
        st.sampled_from([TOPIC, GROUP]),
        st.sampled_from(NAMES),
        st.sampled_from([LITERAL, PREFIXED]),
    ),
    st.sampled_from([*PRINCIPALS, "User:*"]),
    st.sampled_from([*HOSTS, "*"]),
    st.sampled_from([*OPERATIONS, AclOperation.ALL]),
    st.sampled_from([ALLOW, DENY]),
)
principals = st.sampled_from(PRINCIPALS).map(parse_principal)
hosts = st.sampled_from(HOSTS)
operations = st.sampled_from(OPERATIONS)


def naive_covers(acl: Acl, type_: AclResourceType, name: str) -> bool:
    if acl.pattern.type != type_:
        return False
    if acl.pattern.pattern_type is PREFIXED:
        return name.startswith(acl.pattern.name)
    return acl.pattern.name in (name, "*")


def naive_allows(acl: Acl, operation: AclOperation) -> bool:
    if acl.operation in (operation, AclOperation.ALL):
        return True
    if operation is AclOperation.DESCRIBE:
        return acl.operation.name in ("READ", "WRITE", "DELETE", "ALTER")
    wants_configs = operation is AclOperation.DESCRIBE_CONFIGS
    return wants_configs and acl.operation is AclOperation.ALTER_CONFIGS


def naive(
    acls: Sequence[Acl],
    principal: Principal,
    host: str,
    operation: AclOperation,
    type_: AclResourceType,
    name: str,
    *,
    is_open: bool,
) -> bool:
    covering = [acl for acl in acls if naive_covers(acl, type_, name)]
    if not covering:
        return is_open
    mine = [
        acl
        for acl in covering
        if acl.principal in (f"{principal.type}:{principal.name}", "User:*")
        and acl.host in (host, "*")
    ]
    if any(a.permission is DENY and a.operation in (operation, AclOperation.ALL) for a in mine):
        return False
    return any(a.permission is ALLOW and naive_allows(a, operation) for a in mine)


@given(st.lists(acls, max_size=12), principals, hosts, operations, st.booleans())
def test_each_decision_is_that_of_the_naive_model(
    rules: list[Acl], principal: Principal, host: str, operation: AclOperation, is_open: bool
) -> None:
    authorizer = Authorizer(AclIndex(rules), allow_if_no_acl=is_open)
    for name in (*NAMES, "abcd", "c"):
        decision = authorizer.decide(principal, host, operation, TOPIC, name)
        expected = naive(rules, principal, host, operation, TOPIC, name, is_open=is_open)
        assert decision.allowed is expected, name
        if decision.acl is not None:
            assert decision.acl in rules
            assert (decision.acl.permission is ALLOW) is decision.allowed


@given(st.lists(acls, max_size=8), principals, hosts, operations, st.booleans())
def test_any_resource_may_be_used_if_there_can_be_a_name_that_may_be_used(
    rules: list[Acl], principal: Principal, host: str, operation: AclOperation, is_open: bool
) -> None:
    """With the names of the ACLs, the names that begin with them, and another one, every set of
    covering ACLs occurs."""
    authorizer = Authorizer(AclIndex(rules), allow_if_no_acl=is_open)
    names = {*NAMES, *(f"{name}-" for name in NAMES), "other"}
    expected = any(
        naive(rules, principal, host, operation, TOPIC, name, is_open=is_open) for name in names
    )
    assert authorizer.decide_for_any(principal, host, operation, TOPIC) is expected


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), acls), max_size=40), st.integers(1, 5))
def test_an_index_that_follows_changes_decides_as_a_new_one(
    changes: list[tuple[bool, Acl]], batch: int
) -> None:
    index = AclIndex()
    image: dict[Acl, None] = {}
    for start in range(0, len(changes), batch):
        changed = dict(image)
        for is_added, acl in changes[start : start + batch]:
            if is_added:
                changed[acl] = None
            else:
                changed.pop(acl, None)
        index.apply_difference(image, changed)
        image = changed
    followed, new = Authorizer(index), Authorizer(AclIndex(image))
    for principal in map(parse_principal, PRINCIPALS):
        for operation in OPERATIONS:
            assert followed.decide_for_any(
                principal, HOSTS[0], operation, TOPIC
            ) is new.decide_for_any(principal, HOSTS[0], operation, TOPIC)
            for name in NAMES:
                decisions = {
                    each.decide(principal, HOSTS[0], operation, TOPIC, name).allowed
                    for each in (followed, new)
                }
                assert len(decisions) == 1
