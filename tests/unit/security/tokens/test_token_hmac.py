"""HMACs of delegation tokens are Kafka's, and find their token."""

from headrace.security.tokens.token_hmac import TokenHmacIndex, token_hmac

SECRET_KEY = b"a secret key"


def ids(*token_ids: str) -> dict[str, None]:
    return dict.fromkeys(token_ids)


def test_the_hmac_is_hmac_sha_512_of_the_id() -> None:
    # RFC 4231, test case 2
    assert token_hmac(b"Jefe", "what do ya want for nothing?").hex() == (
        "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
        "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
    )


def test_the_index_follows_the_tokens() -> None:
    index = TokenHmacIndex(SECRET_KEY)
    first, second = ids("one"), ids("one", "two")
    hmac = token_hmac(SECRET_KEY, "two")
    for tokens, found in ((first, None), (second, "two"), (first, None), (second, "two")):
        assert index.follow(tokens, 9)
        assert index.find(hmac) == found


def test_a_token_in_place_of_another_is_found() -> None:
    index = TokenHmacIndex(SECRET_KEY)
    assert index.follow(ids("one"), 9)
    assert index.follow(ids("two"), 9)
    assert index.find(token_hmac(SECRET_KEY, "one")) is None
    assert index.find(token_hmac(SECRET_KEY, "two")) == "two"


def test_many_tokens_are_indexed_in_slices() -> None:
    index = TokenHmacIndex(SECRET_KEY)
    tokens = ids("a", "b", "c", "d", "e")
    assert [index.follow(tokens, 2) for _ in range(4)] == [False, False, True, True]
    assert all(index.find(token_hmac(SECRET_KEY, each)) == each for each in tokens)


def test_another_secret_key_finds_nothing() -> None:
    index = TokenHmacIndex(SECRET_KEY)
    assert index.follow(ids("one"), 9)
    assert index.find(token_hmac(b"another key", "one")) is None
    assert index.find(b"") is None


def test_the_secret_key_is_not_in_the_repr() -> None:
    index = TokenHmacIndex(SECRET_KEY)
    index.follow(ids("one"), 9)
    assert repr(index) == "TokenHmacIndex(1 tokens)"
