"""PLAIN: who gets in, who does not, and that nothing shows whether a user exists."""

import pytest

from headrace.security.principal import user
from headrace.security.sasl import plain
from headrace.security.sasl.exchange import Failure, Success
from headrace.security.sasl.plain import PlainExchange, PlainUsers

USERS = PlainUsers({"alice": "secret", "bob": "geheimnis-ü"})


def respond(token: str | bytes) -> object:
    data = token if isinstance(token, bytes) else token.encode()
    return PlainExchange(USERS).respond(data)


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_the_right_password_is_accepted(authorization_id: str) -> None:
    assert respond(f"{authorization_id}\0alice\0secret") == Success(user("alice"))
    assert respond("\0bob\0geheimnis-ü") == Success(user("bob"))


def test_a_wrong_password_and_an_unknown_user_get_the_same_text() -> None:
    wrong, unknown = respond("\0alice\0other"), respond("\0mallory\0secret")
    assert isinstance(wrong, Failure)
    assert isinstance(unknown, Failure)
    assert wrong.client_text == unknown.client_text
    assert wrong.client_text == "Authentication failed: Invalid username or password"


def test_another_authorization_id_is_refused() -> None:
    """CVE-2017-12610: a client that authenticates as itself and acts as another user."""
    answer = respond("bob\0alice\0secret")
    assert isinstance(answer, Failure)
    assert "authorization id" in str(answer.client_text)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0alice\0",
        b"\0\0secret",
        b"alice\0secret",
        b"\0alice\0secret\0x",
        b"\xff\0alice\0secret",
        b"\0alice\0\xed\xa0\x80",
    ],
)
def test_malformed_tokens_fail(token: bytes) -> None:
    assert isinstance(respond(token), Failure)


def test_the_password_of_the_dummy_is_no_way_in() -> None:
    assert not USERS.has_password("mallory", "the password of a user that does not exist")


def test_every_user_costs_one_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2021-38153: comparisons whose time depends on the content."""
    compared: list[tuple[int, int]] = []

    def compare(first: bytes, second: bytes) -> bool:
        compared.append((len(first), len(second)))
        return first == second

    monkeypatch.setattr(plain, "compare_digest", compare)
    for name in ("alice", "mallory"):
        for password in ("s", "secret", "x" * 1000):
            USERS.has_password(name, password)
    assert compared == [(32, 32)] * 6


def test_users_do_not_show_passwords() -> None:
    assert "secret" not in repr(USERS)
    assert "secret" not in repr(vars(type(USERS)))
