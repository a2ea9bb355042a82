"""SCRAM: RFC 7677's exchange, hostile clients, and users that do not exist."""

import base64
from typing import NamedTuple

import pytest

from headrace.security.principal import Principal, user
from headrace.security.sasl.exchange import (
    OTHER_AUTHORIZATION_ID,
    Challenge,
    Failure,
    Outcome,
    Success,
)
from headrace.security.sasl.scram import DecoyCredentials, ScramExchange, ScramLookup
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from support.security.scram_client import SHA_256, ScramClient, scram_credential

SHA_512 = ScramMechanism.SCRAM_SHA_512
OWNER = Principal("User", "owner", token_authenticated=True)


class Token(NamedTuple):
    """What a broker knows of a delegation token."""

    credential: ScramCredential
    principal: Principal
    expiry_ms: int


def exchange(
    mechanism: ScramMechanism = SHA_256,
    users: dict[str, ScramCredential] | None = None,
    tokens: dict[str, Token] | None = None,
    nonce: str = "server-nonce",
) -> ScramExchange:
    known = {"alice": scram_credential("secret", mechanism)} if users is None else users
    by_key = {(name, mechanism): each for name, each in known.items()}
    lookup = ScramLookup(
        of_user=known.get,
        of_token=(tokens or {}).get,
        decoys=DecoyCredentials(b"secret of the broker", mechanism).imitate(by_key),
    )
    return ScramExchange(mechanism, lookup, nonce)


def login(client: ScramClient, server: ScramExchange) -> Outcome:
    challenge = server.respond(client.first)
    if not isinstance(challenge, Challenge):
        return challenge
    return server.respond(client.final(challenge.token))


def reason(outcome: Outcome) -> str:
    assert isinstance(outcome, Failure), outcome
    assert "secret" not in outcome.reason
    return outcome.reason


def test_the_exchange_of_rfc_7677() -> None:
    credential = scram_credential(
        "pencil", salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), iterations=4096
    )
    server = exchange(users={"user": credential}, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    challenge = server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert challenge == Challenge(b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    proof = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    done = server.respond(b"c=biws,r=" + nonce + b",p=" + proof)
    assert isinstance(done, Success)
    assert done.principal == user("user")
    assert done.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert done.credential is credential


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("header", ["n,,", "y,,", "n,a=alice,"])
def test_the_right_password_is_accepted_and_the_server_proves_itself(
    mechanism: ScramMechanism, header: str
) -> None:
    client = ScramClient("alice", "secret", mechanism, header=header)
    done = login(client, exchange(mechanism))
    assert isinstance(done, Success)
    assert done.principal == user("alice")
    assert done.expires_at_ms is None
    assert client.trusts(done.token)


def test_names_with_commas_and_equal_signs_are_encoded() -> None:
    users = {"a,b=c": scram_credential("secret")}
    done = login(ScramClient("a=2Cb=3Dc", "secret"), exchange(users=users))
    assert isinstance(done, Success)
    assert done.principal == user("a,b=c")


def test_a_wrong_password_fails_at_the_end() -> None:
    failure = login(ScramClient("alice", "no"), exchange())
    assert reason(failure) == "invalid user or password"


def test_an_unknown_user_gets_the_answers_of_a_wrong_password() -> None:
    wrong = login(ScramClient("alice", "no"), exchange())
    unknown = login(ScramClient("mallory", "no"), exchange())
    assert isinstance(wrong, Failure)
    assert isinstance(unknown, Failure)
    assert wrong.client_text is unknown.client_text is None
    assert wrong.reason == unknown.reason
    assert (wrong.claimed_user, unknown.claimed_user) == ("alice", "mallory")


def test_an_unknown_user_gets_the_same_challenge_each_time_and_one_like_real_users() -> None:
    users = {"alice": scram_credential("secret", salt=b"x" * 40, iterations=8192)}

    def challenge(name: str) -> dict[str, str]:
        answer = exchange(users=users).respond(ScramClient(name, "").first)
        assert isinstance(answer, Challenge)
        return dict(part.split("=", 1) for part in answer.token.decode().split(","))

    first, again, other = challenge("mallory"), challenge("mallory"), challenge("eve")
    assert first["s"] == again["s"] != other["s"]
    assert len(base64.b64decode(first["s"])) == 40
    assert first["i"] == "8192"


def test_a_decoy_is_computed_for_known_users_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2021-38153: the time of an answer shows nothing if the work is the same."""
    asked: list[str] = []
    found = DecoyCredentials.of
    monkeypatch.setattr(
        DecoyCredentials, "of", lambda self, name: asked.append(name) or found(self, name)
    )
    for name in ("alice", "mallory"):
        login(ScramClient(name, "no"), exchange())
    assert asked == ["alice", "mallory"]


def test_nobody_knows_the_password_of_a_decoy() -> None:
    class Decoy(DecoyCredentials):
        def of(self, name: str) -> ScramCredential:
            return scram_credential("guessed")

    lookup = ScramLookup(lambda _: None, lambda _: None, Decoy(b"", SHA_256))
    server = ScramExchange(SHA_256, lookup, "server-nonce")
    assert isinstance(login(ScramClient("mallory", "guessed"), server), Failure)


@pytest.mark.parametrize("nonce", ["client-nonce", "", "client-nonceserver-nonceX", "other"])
def test_the_final_message_must_repeat_the_whole_nonce(nonce: str) -> None:
    """CVE-2024-56128: a replayed or shortened nonce."""
    client, server = ScramClient("alice", "secret"), exchange()
    challenge = server.respond(client.first)
    assert isinstance(challenge, Challenge)
    assert "nonce" in reason(server.respond(client.final(challenge.token, nonce=nonce)))


@pytest.mark.parametrize("binding", ["", "y,,", "n,a=bob,", "p=tls-unique,,"])
def test_the_final_message_must_repeat_the_header(binding: str) -> None:
    client, server = ScramClient("alice", "secret"), exchange()
    challenge = server.respond(client.first)
    assert isinstance(challenge, Challenge)
    assert "channel binding" in reason(
        server.respond(client.final(challenge.token, binding=binding))
    )


def test_another_authorization_id_is_refused() -> None:
    """CVE-2017-12610: a client that authenticates as itself and acts as another user."""
    answer = exchange().respond(ScramClient("alice", "secret", header="n,a=admin,").first)
    assert isinstance(answer, Failure)
    assert answer.client_text == OTHER_AUTHORIZATION_ID


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,m=ext,n=alice,r=abc",
        b"n,,n=alice,r=abc,m=ext",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=alice",
        b"n,,r=abc,n=alice",
        b"n,,n=al=ice,r=abc",
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=abc,=x",
        b"n,a=,n=alice,r=abc",
        b"n,,n=\xff,r=abc",
        b"x,,n=alice,r=abc",
    ],
)
def test_malformed_first_messages_fail(first: bytes) -> None:
    assert isinstance(exchange().respond(first), Failure)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"c=biws,r=client-nonceserver-nonce",
        b"r=client-nonceserver-nonce,p=AAAA",
        b"c=biws,r=client-nonceserver-nonce,p=AAAA",
        b"c=biws,r=client-nonceserver-nonce,p=!!!!",
        b"c=biws,r=client-nonceserver-nonce,m=ext,p=AAAA",
        b"c=!,r=client-nonceserver-nonce,p=AAAA",
        b"\xff",
    ],
)
def test_malformed_final_messages_fail(final: bytes) -> None:
    server = exchange()
    assert isinstance(server.respond(ScramClient("alice", "secret").first), Challenge)
    assert isinstance(server.respond(final), Failure)


def test_an_altered_first_message_invalidates_the_proof() -> None:
    client, server = ScramClient("alice", "secret"), exchange()
    challenge = server.respond(client.first + b",x=y")
    assert isinstance(challenge, Challenge)
    assert isinstance(server.respond(client.final(challenge.token)), Failure)


def test_a_delegation_token_logs_in_as_its_owner_until_it_expires() -> None:
    token = Token(scram_credential("hmac"), OWNER, expiry_ms=1234)
    client = ScramClient("token-id", "hmac", extensions=",tokenauth=true")
    done = login(client, exchange(tokens={"token-id": token}))
    assert isinstance(done, Success)
    assert done.principal == OWNER
    assert (done.token_id, done.expires_at_ms) == ("token-id", 1234)
    assert client.trusts(done.token)


@pytest.mark.parametrize("extensions", ["", ",tokenauth=false", ",other=true"])
def test_a_token_id_is_no_user_name_without_the_extension(extensions: str) -> None:
    token = Token(scram_credential("hmac"), OWNER, expiry_ms=1234)
    client = ScramClient("token-id", "hmac", extensions=extensions)
    assert isinstance(login(client, exchange(tokens={"token-id": token})), Failure)


def test_a_user_name_is_no_token_id() -> None:
    client = ScramClient("alice", "secret", extensions=",tokenauth=true")
    assert isinstance(login(client, exchange()), Failure)


def test_outcomes_do_not_show_tokens_and_credentials() -> None:
    done = login(ScramClient("alice", "secret"), exchange())
    assert "v=" not in repr(done)
    assert "ScramCredential" not in repr(done)


@pytest.mark.parametrize("padding", [b"a" * 30_000, b",a=" * 10_000])
def test_a_huge_message_is_refused_before_it_is_parsed(padding: bytes) -> None:
    """512 KiB of it, from a client that is not authenticated, took 100 ms."""
    assert reason(exchange().respond(b"n,,n=" + padding)) == "the message is too long"
    client, server = ScramClient("alice", "secret"), exchange()
    assert isinstance(server.respond(client.first), Challenge)
    assert reason(server.respond(b"c=biws,r=x" + padding)) == "the message is too long"
