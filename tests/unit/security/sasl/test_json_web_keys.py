"""Which keys of a key set verify tokens."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import RSAAlgorithm

from headrace.security.sasl.json_web_keys import MAX_KEYS, InvalidKeys, parse_keys
from support.security.signed_tokens import ec_key, key_entry, key_set, rsa_key


def test_usable_keys_are_found_by_id_and_algorithm() -> None:
    keys = parse_keys(
        key_set(key_entry(rsa_key(), "r"), key_entry(ec_key(), "e"), key_entry(rsa_key(1), "s"))
    )
    assert len(keys) == 3
    found = keys.find("s", "PS256")
    assert found is not None
    assert found.public_key == rsa_key(1).public_key()
    assert keys.find("e", "ES256") is not None
    assert keys.find("e", "ES384") is None  # another curve
    assert keys.find("e", "RS256") is None
    assert keys.find("x", "RS256") is None
    assert keys.find(None, "ES256") is not None
    assert keys.find(None, "RS256") is None  # there are two


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "key-1"},
        key_entry(rsa_key(), use="enc"),
        key_entry(rsa_key(), key_ops=["encrypt"]),
        key_entry(rsa_key(), key_ops="verify"),
        key_entry(rsa_key(), alg="HS256"),
        key_entry(rsa_key(), alg=["RS256"]),
        key_entry(rsa_key(), n="AQAB"),
        key_entry(rsa_key(), n="!"),
        key_entry(rsa_key(), n=7),
        key_entry(rsa_key(), kty=["RSA"]),
        key_entry(ec_key(), crv="P-000"),
        key_entry(ec_key(), x="AAAA"),
        RSAAlgorithm.to_jwk(rsa_key(), as_dict=True),  # a private key
        {"kty": "RSA"},
        {},
        [],
        None,
    ],
    ids=lambda entry: str(entry)[:20],
)
def test_unusable_keys_are_left_out(entry: Any) -> None:
    assert len(parse_keys(key_set(key_entry(rsa_key()), entry))) == 1
    with pytest.raises(InvalidKeys):
        parse_keys(key_set(entry))


def test_small_rsa_keys_are_left_out() -> None:
    weak = rsa.generate_private_key(65537, 1024)
    with pytest.raises(InvalidKeys):
        parse_keys(key_set(key_entry(weak)))


def test_every_curve_of_the_algorithms_is_usable() -> None:
    curves = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
    keys = parse_keys(key_set(*(key_entry(ec_key(curve), curve.name) for curve in curves)))
    for curve, algorithm in zip(curves, ("ES256", "ES384", "ES512"), strict=True):
        assert keys.find(curve.name, algorithm) is not None


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b'{"keys": {}}', b'{"keys": []}', b"\xff", b"[" * 100_000, b"null"]
)
def test_texts_that_are_no_key_set_are_refused(text: bytes) -> None:
    with pytest.raises(InvalidKeys):
        parse_keys(text)


def test_a_huge_key_set_is_refused() -> None:
    with pytest.raises(InvalidKeys, match=str(MAX_KEYS)):
        parse_keys(json.dumps({"keys": [key_entry(rsa_key())] * (MAX_KEYS + 1)}).encode())
