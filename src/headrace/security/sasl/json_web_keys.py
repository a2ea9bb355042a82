"""Public keys that sign bearer tokens, from a JSON Web Key Set (RFC 7517). Pure.

A key serves one family of algorithms: RSA keys RS256-512 and PS256-512, EC keys the ES algorithm of
their curve. Symmetric keys, keys for encryption and small RSA keys are left out: a token must never
be verified with a key that its sender could know.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    PublicKey: TypeAlias = RSAPublicKey | EllipticCurvePublicKey

ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
}
"""The type and the curve of the key, by algorithm. There is neither `none` nor HS256."""
MAX_KEYS: Final = 100
MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192


class InvalidKeys(ValueError):
    """The text is not a key set, or has no key that can be used."""


class JsonWebKey(NamedTuple):
    """One public key."""

    key_id: str | None
    type: str
    curve: str | None
    algorithm: str | None
    """The only algorithm that the key is for; None if it has no such restriction."""
    public_key: "PublicKey"


class JsonWebKeys:
    """The usable keys of a set."""

    def __init__(self, keys: tuple[JsonWebKey, ...] = ()) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None, algorithm: str) -> JsonWebKey | None:
        """The key with this id. Without an id, the only key for the algorithm."""
        type_, curve = ALGORITHMS[algorithm]
        found = [
            key
            for key in self._keys
            if key.type == type_
            and key.curve == curve
            and key.algorithm in (None, algorithm)
            and key_id in (None, key.key_id)
        ]
        return found[0] if len(found) == 1 or (found and key_id is not None) else None


def parse_keys(text: bytes) -> JsonWebKeys:
    """The usable keys of a JSON Web Key Set; raises `InvalidKeys`."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidKeys("not JSON") from None
    listed = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(listed, list):
        raise InvalidKeys("no JSON Web Key Set: it has no list of keys")
    if len(listed) > MAX_KEYS:
        raise InvalidKeys(f"{len(listed)} keys; at most {MAX_KEYS} are accepted")
    keys = tuple(key for key in map(_key, listed) if key is not None)
    if not keys:
        raise InvalidKeys("no key for RS, PS or ES signatures among them")
    return JsonWebKeys(keys)


def _key(entry: object) -> JsonWebKey | None:
    """None for a key that cannot be used."""
    if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC") or "d" in entry:
        return None
    operations = entry.get("key_ops", ["verify"])
    if entry.get("use", "sig") != "sig" or not isinstance(operations, list):
        return None
    algorithm, key_id = entry.get("alg"), entry.get("kid")
    if "verify" not in operations:
        return None
    if algorithm is not None and not (isinstance(algorithm, str) and algorithm in ALGORITHMS):
        return None
    public_key = _public_key(entry)
    if public_key is None:
        return None
    return JsonWebKey(
        key_id if isinstance(key_id, str) else None,
        entry["kty"],
        entry.get("crv") if entry["kty"] == "EC" else None,
        algorithm,
        public_key,
    )


def _public_key(entry: dict[str, Any]) -> "PublicKey | None":
    """None for a key of the wrong size, or one that is malformed."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm
    from jwt.exceptions import PyJWTError

    try:
        algorithm = ECAlgorithm if entry["kty"] == "EC" else RSAAlgorithm
        key = algorithm.from_jwk(entry)
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAPublicKey):
        return key if MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS else None
    return key if isinstance(key, EllipticCurvePublicKey) else None
