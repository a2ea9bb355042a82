"""An issuer of bearer tokens for tests: its keys, its key set and its tokens."""

import base64
import json
import time
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt import PyJWS
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER = "https://issuer.test"
AUDIENCE = "headrace"
LIFETIME_S = 3600
KEY_ID = "key-1"
_RSA_KEYS: list[rsa.RSAPrivateKey] = []
_EC_KEYS: dict[type[ec.EllipticCurve], ec.EllipticCurvePrivateKey] = {}


def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    """A key; the same number gives the same key."""
    while len(_RSA_KEYS) <= number:
        _RSA_KEYS.append(rsa.generate_private_key(65537, 2048))
    return _RSA_KEYS[number]


def ec_key(curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    """A key; the same curve gives the same key."""
    if curve not in _EC_KEYS:
        _EC_KEYS[curve] = ec.generate_private_key(curve())
    return _EC_KEYS[curve]


def key_entry(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, key_id: str | None = KEY_ID, **more: object
) -> dict[str, Any]:
    """The public key as an entry of a key set."""
    public = key.public_key()
    entry = (
        RSAAlgorithm.to_jwk(public, as_dict=True)
        if isinstance(public, rsa.RSAPublicKey)
        else ECAlgorithm.to_jwk(public, as_dict=True)
    )
    return {**entry, **({} if key_id is None else {"kid": key_id}), **more}


def key_set(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(entries or [key_entry(rsa_key())])}).encode()


def claims(subject: str = "alice", **more: object) -> dict[str, Any]:
    """The claims of a valid token; a value of None removes a claim."""
    now = int(time.time())
    found: dict[str, Any] = {
        "sub": subject,
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": now,
        "exp": now + LIFETIME_S,
        **more,
    }
    return {name: value for name, value in found.items() if value is not None}


def signed(
    payload: dict[str, Any] | None = None,
    *,
    key: Any = None,
    algorithm: str = "RS256",
    key_id: str | None = KEY_ID,
    headers: dict[str, Any] | None = None,
) -> str:
    """A token of the issuer."""
    header = {**({} if key_id is None else {"kid": key_id}), **(headers or {})}
    chosen = rsa_key() if key is None else key
    content = json.dumps(payload or claims()).encode()
    return PyJWS().encode(content, chosen, algorithm, headers=header)


def handmade(header: object, payload: object, signature: bytes = b"") -> str:
    """A token with any content."""
    parts = [json.dumps(header).encode(), json.dumps(payload).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def issuer_settings(folder: Path) -> dict[str, str]:
    """Broker settings that accept the issuer's tokens; writes its keys to the folder."""
    path = folder / "keys.json"
    path.write_bytes(key_set())
    return {
        "sasl.oauthbearer.jwks.endpoint.url": path.as_uri(),
        "headrace.oauthbearer.allowed.urls": path.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
