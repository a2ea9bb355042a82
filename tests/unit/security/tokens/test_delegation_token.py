"""Who may see, renew and request delegation tokens, and when one has expired."""

import pytest

from headrace.security.principal import ANONYMOUS, Principal, user
from headrace.security.session import INTERNAL, Session
from headrace.security.tokens.delegation_token import DelegationToken, allows_token_requests

TOKEN = DelegationToken(
    "id", user("owner"), user("requester"), (user("renewer"),), issue_ms=0, expiry_ms=50, max_ms=90
)


def session(protocol: str, principal: Principal) -> Session:
    return Session(principal, "127.0.0.1", "CLIENTS", protocol)


@pytest.mark.parametrize(
    ("name", "may_renew", "may_see"),
    [
        ("owner", True, True),
        ("renewer", True, True),
        ("requester", False, True),
        ("another", False, False),
    ],
)
def test_owner_and_renewers_may_renew_and_the_requester_may_only_see(
    name: str, may_renew: bool, may_see: bool
) -> None:
    assert TOKEN.may_renew(user(name)) is may_renew
    assert TOKEN.belongs_to(user(name)) is may_see
    assert TOKEN.is_asked_for({user(name)}) is may_see


def test_a_list_request_for_no_user_includes_no_token_and_one_for_all_includes_each() -> None:
    assert not TOKEN.is_asked_for(set())
    assert TOKEN.is_asked_for(None)


def test_a_token_is_valid_up_to_its_expiry_and_never_past_its_maximum() -> None:
    assert not TOKEN.is_expired(50)
    assert TOKEN.is_expired(51)
    late = DelegationToken("id", user("a"), user("a"), (), 0, expiry_ms=500, max_ms=90)
    assert not late.is_expired(90)
    assert late.is_expired(91)


def test_a_login_with_a_token_acts_as_the_owner_and_is_marked() -> None:
    assert TOKEN.login() == Principal("User", "owner", token_authenticated=True)


@pytest.mark.parametrize(
    ("protocol", "principal", "allowed"),
    [
        ("SASL_SSL", user("a"), True),
        ("SASL_PLAINTEXT", user("a"), True),
        ("SSL", user("CN=a"), True),
        ("SSL", ANONYMOUS, False),
        ("PLAINTEXT", user("a"), False),
        ("SASL_SSL", TOKEN.login(), False),
    ],
)
def test_only_a_login_that_is_not_a_token_allows_token_requests(
    protocol: str, principal: Principal, allowed: bool
) -> None:
    assert allows_token_requests(session(protocol, principal)) is allowed


def test_the_broker_itself_may_send_token_requests() -> None:
    assert allows_token_requests(INTERNAL)
