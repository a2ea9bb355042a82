"""HMACs of delegation tokens are Kafka's, and find their token."""

from headrace.security.delegation_token import DelegationToken
from headrace.security.principal import user
from headrace.security.token_hmac import TokenHmacIndex, token_hmac

SECRET_KEY = b"a secret key"


def tokens(*ids: str) -> dict[str, DelegationToken]:
    return {each: DelegationToken(each, user("a"), user("a"), (), 0, 1, 2) for each in ids}


def test_the_hmac_is_hmac_sha_512_of_the_id() -> None:
    # RFC 4231, test case 2
    assert token_hmac(b"Jefe", "what do ya want for nothing?").hex() == (
        "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
        "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
    )


def test_the_index_follows_the_tokens() -> None:
    index = TokenHmacIndex(SECRET_KEY)
    first, second = tokens("one"), tokens("one", "two")
    hmac = token_hmac(SECRET_KEY, "two")
    assert index.find(first, hmac) is None
    assert index.find(second, hmac) == second["two"]
    assert index.find(first, hmac) is None
    assert index.find(second, hmac) == second["two"]


def test_the_index_returns_the_renewed_token() -> None:
    index = TokenHmacIndex(SECRET_KEY)
    before = tokens("one")
    hmac = token_hmac(SECRET_KEY, "one")
    assert index.find(before, hmac) == before["one"]
    renewed = {"one": DelegationToken("one", user("a"), user("a"), (), 0, 9, 9)}
    assert index.find(renewed, hmac) == renewed["one"]


def test_another_secret_key_finds_nothing() -> None:
    index = TokenHmacIndex(SECRET_KEY)
    assert index.find(tokens("one"), token_hmac(b"another key", "one")) is None
    assert index.find(tokens("one"), b"") is None


def test_the_secret_key_is_not_in_the_repr() -> None:
    index = TokenHmacIndex(SECRET_KEY)
    index.find(tokens("one"), b"")
    assert repr(index) == "TokenHmacIndex(1 tokens)"
