"""Which bearer tokens are accepted, and which never are."""

import base64
import hashlib
import hmac
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headrace.security.sasl.json_web_keys import JsonWebKeys, parse_keys
from headrace.security.sasl.jwt import (
    MAX_TOKEN_CHARS,
    BearerToken,
    InvalidToken,
    TokenRules,
    UnknownKeyId,
    validate,
)
from support.security import signed_tokens
from support.security.signed_tokens import (
    AUDIENCE,
    ISSUER,
    LIFETIME_S,
    ec_key,
    handmade,
    key_entry,
    key_set,
    rsa_key,
)

RULES = TokenRules(ISSUER, (AUDIENCE, "other"), "scope", "sub", clock_skew_s=30)
KEYS = parse_keys(key_set())
NOW = 1_800_000_000


def claims(subject: str = "alice", **more: Any) -> dict[str, Any]:
    """The claims of a token that is issued now, as `check` sees it."""
    return signed_tokens.claims(subject, **{"iat": NOW, "exp": NOW + LIFETIME_S, **more})


def signed(payload: dict[str, Any] | None = None, **how: Any) -> str:
    return signed_tokens.signed(payload or claims(), **how)


def check(token: str, keys: JsonWebKeys = KEYS, rules: TokenRules = RULES) -> BearerToken:
    return validate(token, keys, rules, NOW)


def test_a_valid_token_names_its_subject_and_its_end() -> None:
    assert check(signed(claims(exp=NOW + 100, scope="read write"))) == BearerToken(
        "alice", (NOW + 100) * 1000, ("read", "write")
    )


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_rsa_signatures_are_accepted(algorithm: str) -> None:
    assert check(signed(algorithm=algorithm)).subject == "alice"


@pytest.mark.parametrize(
    ("algorithm", "curve"),
    [("ES256", ec.SECP256R1), ("ES384", ec.SECP384R1), ("ES512", ec.SECP521R1)],
)
def test_ec_signatures_are_accepted(algorithm: str, curve: type[ec.EllipticCurve]) -> None:
    keys = parse_keys(key_set(key_entry(ec_key(curve))))
    assert check(signed(key=ec_key(curve), algorithm=algorithm), keys).subject == "alice"


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None, ["none"], 1])
@pytest.mark.parametrize("signature", [b"", b"x"])
def test_an_unsigned_token_is_refused(algorithm: object, signature: bytes) -> None:
    """CVE-2026-110985, CVE-2026-33557: a token without a signature, or with an ignored one."""
    token = handmade({"alg": algorithm, "kid": "key-1"}, claims(), signature)
    for each in (token, token.rstrip("."), token.rpartition(".")[0]):
        with pytest.raises(InvalidToken):
            check(each)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_token_that_is_signed_with_the_public_key_as_a_secret_is_refused(algorithm: str) -> None:
    public = rsa_key().public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    unsigned = handmade({"alg": algorithm, "kid": "key-1"}, claims())
    digest = getattr(hashlib, f"sha{algorithm[2:]}")
    mac = hmac.new(pem, unsigned.rpartition(".")[0].encode(), digest).digest()
    with pytest.raises(InvalidToken, match="algorithm"):
        check(handmade({"alg": algorithm, "kid": "key-1"}, claims(), mac))


def test_a_signature_of_another_key_is_refused() -> None:
    with pytest.raises(InvalidToken, match="signature"):
        check(signed(key=rsa_key(1)))


def test_a_changed_token_is_refused() -> None:
    header, payload, signature = signed().split(".")
    other = signed(claims("admin")).split(".")[1]
    for changed in (f"{header}.{other}.{signature}", f"{header}.{payload}.{signature[:-8]}"):
        with pytest.raises(InvalidToken, match="signature"):
            check(changed)


def test_a_key_is_for_its_own_algorithms_only() -> None:
    restricted = parse_keys(key_set(key_entry(rsa_key(), alg="RS512")))
    assert check(signed(algorithm="RS512"), restricted)
    with pytest.raises(UnknownKeyId):
        check(signed(algorithm="RS256"), restricted)
    with pytest.raises(UnknownKeyId):
        check(signed(key=ec_key(), algorithm="ES256"))  # the key id is that of an RSA key


def test_an_unknown_key_id_is_told_apart_from_an_invalid_token() -> None:
    with pytest.raises(UnknownKeyId) as refused:
        check(signed(key_id="key-2"))
    assert refused.value.key_id == "key-2"


def test_a_token_without_a_key_id_needs_a_single_key() -> None:
    assert check(signed(key_id=None)).subject == "alice"
    two = parse_keys(key_set(key_entry(rsa_key()), key_entry(rsa_key(1), "key-2")))
    with pytest.raises(UnknownKeyId):
        check(signed(key_id=None), two)
    assert check(signed(key=rsa_key(1), key_id="key-2"), two)


@pytest.mark.parametrize(
    "header", [{"crit": ["b64"], "b64": False}, {"crit": []}, {"crit": ["x"], "x": 1}]
)
def test_a_header_that_requires_an_extension_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        check(signed(headers=header))


def test_keys_in_the_header_are_ignored() -> None:
    headers = {"jwk": key_entry(rsa_key(1)), "jku": "https://attacker", "x5u": "https://attacker"}
    with pytest.raises(InvalidToken, match="signature"):
        check(signed(key=rsa_key(1), headers=headers))


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": NOW - 30},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": 1e300},
        {"exp": 10**400},
        {"exp": float("nan")},
        {"exp": -1},
        {"iat": NOW + 31},
        {"iat": None},
        {"nbf": NOW + 31},
        {"nbf": "now"},
        {"iss": "https://other.test"},
        {"iss": None},
        {"iss": [ISSUER]},
        {"aud": "unrelated"},
        {"aud": []},
        {"aud": None},
        {"aud": [[AUDIENCE]]},
        {"aud": {AUDIENCE: 1}},
        {"sub": None},
        {"sub": ""},
        {"sub": "  "},
        {"sub": 7},
        {"sub": "alice\nUser:admin allowed"},
    ],
    ids=str,
)
def test_each_claim_is_checked(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        check(signed(claims(**changed)))


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": NOW - 29},
        {"iat": NOW + 30},
        {"nbf": NOW + 30},
        {"nbf": NOW - 9999},
        {"aud": ["x", "other"]},
        {"exp": NOW + 0.5},
        {"scope": ["a", 7]},
        {"scope": 7},
    ],
    ids=str,
)
def test_what_is_within_the_rules_is_accepted(changed: dict[str, Any]) -> None:
    assert check(signed(claims(**changed))).subject == "alice"


def test_other_claims_can_name_the_user_and_the_scopes() -> None:
    rules = TokenRules(ISSUER, (AUDIENCE,), "scp", "preferred_username", 30)
    token = signed(claims(preferred_username="carol", scp=["x"]))
    assert check(token, rules=rules)[::2] == ("carol", ("x",))
    with pytest.raises(InvalidToken, match="preferred_username"):
        check(signed(), rules=rules)


@pytest.mark.parametrize(
    "token",
    [
        *("", ".", "..", "a.b", "a.b.c.d", "!.!.!", "x" * (MAX_TOKEN_CHARS + 1), "é.é.é", " . . "),
        *(handmade([], {}), handmade({"alg": "RS256"}, []), handmade(None, None, b"x")),
    ],
)
def test_texts_that_are_no_token_are_refused(token: str) -> None:
    with pytest.raises(InvalidToken):
        check(token)


@pytest.mark.parametrize("text", ["[" * 40_000, "{" * 40_000, "1" * 9_000, '{"exp": NaN}', "\xff"])
def test_hostile_json_is_refused(text: str) -> None:
    part = base64.urlsafe_b64encode(text.encode("latin-1")).rstrip(b"=").decode()
    with pytest.raises(InvalidToken):
        check(f"{part}.{part}.AAAA")


def test_a_refusal_shows_nothing_of_the_token() -> None:
    token = signed(claims("very-secret-subject", iss="https://wrong.test"))
    with pytest.raises(InvalidToken) as refused:
        check(token)
    assert "very-secret-subject" not in str(refused.value)
    assert all(part not in str(refused.value) for part in token.split("."))
