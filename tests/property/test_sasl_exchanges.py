"""Any bytes for any exchange: an outcome, never an exception, and never a success by chance."""

import base64
import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.login.sasl import start
from headrace.client.login.security import Credentials, Mechanism
from headrace.security.sasl.exchange import Challenge, Exchange, Failure, Success, UnknownKey
from headrace.security.sasl.jaas import InvalidJaas, parse_jaas
from headrace.security.sasl.json_web_keys import InvalidKeys, parse_keys
from headrace.security.sasl.jwt import InvalidToken, TokenRules, validate
from headrace.security.sasl.oauthbearer import OAuthBearerExchange
from headrace.security.sasl.plain import PlainExchange, PlainUsers
from headrace.security.sasl.scram import DecoyCredentials, ScramExchange, ScramLookup
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from support.security.scram_client import SHA_256, ScramClient, scram_credential
from support.security.signed_tokens import AUDIENCE, ISSUER, claims, key_set, signed

EXAMPLES = settings(max_examples=30)
KEYS = parse_keys(key_set())
RULES = TokenRules(ISSUER, (AUDIENCE,), "scope", "sub", 30)
TOKEN = signed()
NOW_S = claims()["iat"]
USERS = {"alice": scram_credential("secret")}
MESSAGES = {
    "PLAIN": b"\0alice\0secret",
    "SCRAM": b"n,,n=alice,r=abc",
    "OAUTHBEARER": f"n,,\1auth=Bearer {TOKEN}\1\1".encode(),
}


def exchange(mechanism: str) -> Exchange:
    if mechanism == "PLAIN":
        return PlainExchange(PlainUsers({"alice": "secret"}))
    if mechanism == "OAUTHBEARER":
        return OAuthBearerExchange(lambda token: validate(token, KEYS, RULES, NOW_S))
    decoys = DecoyCredentials(b"secret", SHA_256)
    return ScramExchange(SHA_256, ScramLookup(USERS.get, lambda _: None, decoys), "nonce")


def mutated(message: bytes) -> st.SearchStrategy[bytes]:
    """The message with a few bytes replaced, inserted or removed."""
    edit = st.tuples(st.integers(0, len(message)), st.integers(0, 8), st.binary(max_size=8))

    def apply(edits: list[tuple[int, int, bytes]]) -> bytes:
        data = message
        for at, removed, added in edits:
            data = data[:at] + added + data[at + removed :]
        return data

    return st.lists(edit, min_size=1, max_size=3).map(apply)


@pytest.mark.parametrize("mechanism", MESSAGES)
@EXAMPLES
@given(data=st.data())
def test_any_tokens_get_outcomes(mechanism: str, data: st.DataObject) -> None:
    tokens = st.one_of(st.binary(max_size=200), mutated(MESSAGES[mechanism]))
    server = exchange(mechanism)
    for _ in range(3):
        outcome = server.respond(data.draw(tokens))
        assert isinstance(outcome, Challenge | Success | Failure | UnknownKey)
        if isinstance(outcome, Success):  # the edits changed nothing that counts
            assert mechanism != "SCRAM"
            assert outcome.principal.name == "alice"
        if isinstance(outcome, Success | Failure):
            break


@EXAMPLES
@given(data=st.data())
def test_no_change_of_a_final_message_is_accepted(data: st.DataObject) -> None:
    server, client = exchange("SCRAM"), ScramClient("alice", "secret")
    challenge = server.respond(client.first)
    assert isinstance(challenge, Challenge)
    final = client.final(challenge.token)
    changed = data.draw(mutated(final))
    assert isinstance(server.respond(changed), Success) == (changed == final)


@EXAMPLES
@given(
    name=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
    password=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    mechanism=st.sampled_from([SHA_256, ScramMechanism.SCRAM_SHA_512]),
)
def test_any_name_and_password_can_log_in(
    name: str, password: str, mechanism: ScramMechanism
) -> None:
    known: dict[str, ScramCredential] = {name: scram_credential(password, mechanism)}
    decoys = DecoyCredentials(b"secret", mechanism)
    server = ScramExchange(mechanism, ScramLookup(known.get, lambda _: None, decoys), "nonce")
    client = start(Credentials(Mechanism(mechanism.mechanism_name), name, password), "client-nonce")
    challenge = server.respond(next(client))
    assert isinstance(challenge, Challenge)
    done = server.respond(client.send(challenge.token))
    assert isinstance(done, Success)
    assert done.principal.name == name
    with pytest.raises(StopIteration):  # the client has verified the broker
        client.send(done.token)


@EXAMPLES
@given(
    token=st.one_of(
        st.text(max_size=200), mutated(TOKEN.encode()).map(lambda b: b.decode("latin-1"))
    )
)
def test_no_change_of_a_token_is_accepted(token: str) -> None:
    try:
        validate(token, KEYS, RULES, NOW_S)
    except InvalidToken:
        return
    # The unused bits at the end of a part may differ.
    assert [decoded(part) for part in token.split(".")] == [decoded(p) for p in TOKEN.split(".")]


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEY_NAMES = st.sampled_from(["kty", "kid", "use", "alg", "key_ops", "n", "e", "crv", "x", "y", "d"])
KEY_VALUES = st.sampled_from(["RSA", "EC", "sig", "RS256", "P-256", "AQAB", "verify"]) | JSON


@EXAMPLES
@given(st.lists(st.dictionaries(KEY_NAMES, KEY_VALUES), max_size=3))
def test_any_key_set_is_read_or_refused(entries: list[dict[str, object]]) -> None:
    with contextlib.suppress(InvalidKeys):
        parse_keys(json.dumps({"keys": entries}).encode())


@EXAMPLES
@given(st.dictionaries(st.sampled_from(list(claims())), JSON))
def test_any_claims_are_judged(changed: dict[str, object]) -> None:
    token = signed({**claims(), "iat": NOW_S, **changed})
    with contextlib.suppress(InvalidToken):
        validate(token, KEYS, RULES, NOW_S)


@EXAMPLES
@given(
    text=st.text(st.sampled_from("abP ;=\"'\\/*\n.0") | st.characters(), max_size=60),
    known=st.booleans(),
)
def test_any_jaas_text_is_read_or_refused(text: str, known: bool) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required "
    with contextlib.suppress(InvalidJaas):
        parse_jaas(module + text if known else text)


@EXAMPLES
@given(password=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_password_can_be_quoted(password: str) -> None:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = parse_jaas(f'{module} required user_alice="{escaped}" password="x";')
    assert login.users() == {"alice": password}
