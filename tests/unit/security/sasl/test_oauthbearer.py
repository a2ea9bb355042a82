"""OAUTHBEARER: the message of RFC 7628, and the two steps of a refusal."""

import pytest

from headrace.security.principal import user
from headrace.security.sasl.exchange import Challenge, Failure, Success, UnknownKey
from headrace.security.sasl.jwt import BearerToken, InvalidToken, UnknownKeyId
from headrace.security.sasl.oauthbearer import REFUSAL, OAuthBearerExchange

GOOD = "good.to-ken_.x"
PAIR = "a=b\1"
ALICE = BearerToken("alice", 5000, ())


def validate(token: str) -> BearerToken:
    if token == GOOD:
        return ALICE
    if token == "new-key":
        raise UnknownKeyId("key-2")
    raise InvalidToken("it is not good")


def exchange() -> OAuthBearerExchange:
    return OAuthBearerExchange(validate)


@pytest.mark.parametrize(
    "message",
    [
        f"n,,\1auth=Bearer {GOOD}\1\1",
        f"y,,\1auth=bearer   {GOOD}\1\1",
        f"n,a=alice,\1auth=Bearer {GOOD}\1\1",
        f"n,,\1host=h\1port=9092\1auth=BEARER {GOOD}\1\1",
        f"n,,\1auth=Bearer {GOOD}\1traceId=1 2\1\1",
    ],
)
def test_a_good_token_is_accepted_until_it_expires(message: str) -> None:
    assert exchange().respond(message.encode()) == Success(user("alice"), expires_at_ms=5000)


def test_a_bad_token_fails_after_the_client_has_seen_the_status() -> None:
    """RFC 7628, section 3.2.3."""
    server = exchange()
    assert server.respond(b"n,,\1auth=Bearer bad\1\1") == Challenge(REFUSAL.encode())
    assert server.respond(b"\1") == Failure("it is not good", REFUSAL)


def test_a_second_message_does_not_repair_a_refusal() -> None:
    server = exchange()
    server.respond(b"n,,\1auth=Bearer bad\1\1")
    assert isinstance(server.respond(f"n,,\1auth=Bearer {GOOD}\1\1".encode()), Failure)


def test_an_unknown_key_is_looked_for_once() -> None:
    server, message = exchange(), b"n,,\1auth=Bearer new-key\1\1"
    assert server.respond(message) == UnknownKey("key-2")
    assert server.respond(message) == Challenge(REFUSAL.encode())
    assert isinstance(server.respond(message), Failure)


def test_another_authorization_id_is_refused() -> None:
    """CVE-2017-12610, for tokens."""
    answer = exchange().respond(f"n,a=admin,\1auth=Bearer {GOOD}\1\1".encode())
    assert isinstance(answer, Failure)
    assert "authorization id" in str(answer.client_text)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1",
        b"n,,\1\1",
        b"n,,\1auth=Basic x\1\1",
        b"n,,\1auth=Bearer \1\1",
        b"n,,\1auth=Bearer good.to-ken_.x\1",
        b"n,,\1Auth=Bearer good.to-ken_.x\1\1",
        b"p=tls-unique,,\1auth=Bearer good.to-ken_.x\1\1",
        b"n,,\1au th=Bearer good.to-ken_.x\1\1",
        b"n,,\1auth=Bearer good.to-ken_.x\1\1\0",
        b"\xff",
    ],
)
def test_malformed_messages_fail(message: bytes) -> None:
    assert isinstance(exchange().respond(message), Failure)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (f"n,,\1auth=Bearer {'x' * 80_000}\1\1", "the client's message is too long"),
        (f"n,a={'a' * 1025},\1auth=Bearer {GOOD}\1\1", "the client's message is malformed"),
        (f"n,,\1auth=Bearer {GOOD}\1{PAIR * 33}\1", "the client's message is malformed"),
    ],
)
def test_a_message_that_is_costly_to_parse_is_refused(message: str, reason: str) -> None:
    assert exchange().respond(message.encode()) == Failure(reason)
