"""SCRAM credentials of delegation tokens: derived at a login, and only for valid tokens."""

import base64
import hashlib
import hmac

import pytest

from headrace.client.login.sasl import start
from headrace.client.login.security import Credentials, Mechanism
from headrace.security.principal import Principal, user
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from headrace.security.tokens import token_credentials
from headrace.security.tokens.delegation_token import DelegationToken
from headrace.security.tokens.token_credentials import TokenCredentials
from headrace.security.tokens.token_hmac import token_hmac

SECRET_KEY = b"a secret key"
SHA_256 = ScramMechanism.SCRAM_SHA_256
SHA_512 = ScramMechanism.SCRAM_SHA_512
NOW_MS = 1_000


def tokens(*ids: str, expiry_ms: int = 2_000) -> dict[str, DelegationToken]:
    return {
        each: DelegationToken(each, user("owner"), user("a"), (), 0, expiry_ms, 9_000)
        for each in ids
    }


@pytest.fixture
def derivations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids for which a credential was derived."""
    derived: list[str] = []
    derive = token_credentials.derive_credential

    def counted(secret_key: bytes, token_id: str, mechanism: ScramMechanism) -> ScramCredential:
        derived.append(token_id)
        return derive(secret_key, token_id, mechanism)

    monkeypatch.setattr(token_credentials, "derive_credential", counted)
    return derived


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_client_with_the_hmac_as_password_proves_itself(mechanism: ScramMechanism) -> None:
    login = TokenCredentials(SECRET_KEY).login(tokens("one"), "one", mechanism, NOW_MS)
    assert login is not None
    credential = login.credential
    password = base64.b64encode(token_hmac(SECRET_KEY, "one")).decode()
    client = start(Credentials(Mechanism(mechanism.mechanism_name), "one", password), "nonce")
    first = next(client).decode().removeprefix("n,,")
    salt = base64.b64encode(credential.salt).decode()
    challenge = f"r=nonce+more,s={salt},i={credential.iterations}"
    final, _, proof = client.send(challenge.encode()).decode().partition(",p=")
    signed = ",".join((first, challenge, final)).encode()
    signature = hmac.digest(credential.stored_key, signed, mechanism.algorithm)
    client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    assert hashlib.new(mechanism.algorithm, client_key).digest() == credential.stored_key
    verifier = hmac.digest(credential.server_key, signed, mechanism.algorithm)
    with pytest.raises(StopIteration):
        client.send(b"v=" + base64.b64encode(verifier))


def test_a_login_acts_as_the_owner_until_the_token_expires() -> None:
    login = TokenCredentials(SECRET_KEY).login(tokens("one"), "one", SHA_256, NOW_MS)
    assert login is not None
    assert login.principal == Principal("User", "owner", token_authenticated=True)
    assert login.expiry_ms == 2_000
    assert login.token_id == "one"


def test_nothing_is_derived_for_an_unknown_or_expired_token(derivations: list[str]) -> None:
    credentials = TokenCredentials(SECRET_KEY)
    assert credentials.login(tokens("one"), "two", SHA_256, NOW_MS) is None
    assert credentials.login(tokens("one", expiry_ms=999), "one", SHA_256, NOW_MS) is None
    assert derivations == []


def test_a_credential_is_derived_once_for_each_mechanism(derivations: list[str]) -> None:
    credentials = TokenCredentials(SECRET_KEY)
    for mechanism in (SHA_256, SHA_256, SHA_512, SHA_512):
        assert credentials.login(tokens("one"), "one", mechanism, NOW_MS)
    assert derivations == ["one", "one"]


def test_the_cache_keeps_the_last_used_credentials(derivations: list[str]) -> None:
    credentials = TokenCredentials(SECRET_KEY, max_cached=2)
    for token_id in ("one", "two", "one", "three", "one", "two"):
        assert credentials.login(tokens("one", "two", "three"), token_id, SHA_256, NOW_MS)
    assert derivations == ["one", "two", "three", "two"]


def test_every_broker_with_the_key_derives_the_same_credential() -> None:
    first, second = TokenCredentials(SECRET_KEY), TokenCredentials(SECRET_KEY)
    known = tokens("one")
    assert first.login(known, "one", SHA_512, 0) == second.login(known, "one", SHA_512, 0)
    other = TokenCredentials(b"another key").login(known, "one", SHA_512, 0)
    assert first.login(known, "one", SHA_512, 0) != other


def test_no_secret_is_in_a_repr() -> None:
    credentials = TokenCredentials(SECRET_KEY)
    login = credentials.login(tokens("one"), "one", SHA_256, NOW_MS)
    assert repr(credentials) == "TokenCredentials(1 cached)"
    assert "stored_key" not in repr(login)
