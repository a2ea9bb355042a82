"""Validation of bearer tokens: signed JSON Web Tokens (RFC 7519, RFC 8725). Pure.

Guarantees: a token is accepted only with a signature by a known key, with one of the algorithms in
`json_web_keys.ALGORITHMS`; an unsigned token never is (CVE-2026-110985, CVE-2026-33557). It must
name the expected issuer and audience, a subject, when it was issued and when it expires. The
reasons of a refusal contain nothing of the token but its key id.
"""

import base64
import json
import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headrace.security.sasl.json_web_keys import ALGORITHMS, JsonWebKeys

MAX_TOKEN_CHARS: Final = 64 * 1024
"""Larger than the header of any HTTP server, which tokens are made for."""
_PARTS: Final = 3
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")
_MAX_TIME_S: Final = 1 << 40
_SHOWN_KEY_ID_CHARS: Final = 64


class InvalidToken(Exception):
    """The token is not accepted; the message has the reason."""


class UnknownKeyId(InvalidToken):
    """The token is signed with a key that is not known; it may be new."""

    def __init__(self, key_id: str | None) -> None:
        shown = "without an id" if key_id is None else repr(key_id[:_SHOWN_KEY_ID_CHARS])
        super().__init__(f"signed with an unknown key ({shown})")
        self.key_id = key_id or ""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must say."""

    issuer: str
    audiences: tuple[str, ...]
    scope_claim: str
    subject_claim: str
    clock_skew_s: int


class BearerToken(NamedTuple):
    """A valid token."""

    subject: str
    expires_at_ms: int
    scopes: tuple[str, ...]


def validate(token: str, keys: JsonWebKeys, rules: TokenRules, now_s: float) -> BearerToken:
    """The claims of a valid token; raises `InvalidToken`."""
    if len(token) > MAX_TOKEN_CHARS:
        raise InvalidToken("the token is too long")
    parts = token.split(".")
    if len(parts) != _PARTS or not all(map(_BASE64URL.fullmatch, parts)):
        raise InvalidToken("not a signed JSON Web Token")
    header = _json_object(parts[0], "header")
    _check_signature(header, f"{parts[0]}.{parts[1]}".encode(), _decoded(parts[2]), keys)
    return _check_claims(_json_object(parts[1], "claims"), rules, now_s)


def _check_signature(
    header: dict[str, Any], signed: bytes, signature: bytes, keys: JsonWebKeys
) -> None:
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise InvalidToken("the algorithm is not accepted; tokens need an RS, PS or ES signature")
    if "crit" in header:
        raise InvalidToken("the header requires an extension")
    if key_id is not None and not isinstance(key_id, str):
        raise InvalidToken("the key id is no text")
    key = keys.find(key_id, algorithm)
    if key is None:
        raise UnknownKeyId(key_id)
    from jwt.algorithms import get_default_algorithms

    if not get_default_algorithms()[algorithm].verify(signed, key.public_key, signature):
        raise InvalidToken("the signature is invalid")


def _check_claims(claims: dict[str, Any], rules: TokenRules, now_s: float) -> BearerToken:
    skew_s = rules.clock_skew_s
    expires_at_s, issued_at_s = _time(claims, "exp"), _time(claims, "iat")
    if now_s >= expires_at_s + skew_s:
        raise InvalidToken("the token has expired")
    if issued_at_s > now_s + skew_s:
        raise InvalidToken("the token is issued in the future; are the clocks right?")
    if "nbf" in claims and _time(claims, "nbf") > now_s + skew_s:
        raise InvalidToken("the token is not valid yet")
    if claims.get("iss") != rules.issuer:
        raise InvalidToken("another issuer (sasl.oauthbearer.expected.issuer)")
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if not any(each in rules.audiences for each in named if isinstance(each, str)):
        raise InvalidToken("another audience (sasl.oauthbearer.expected.audience)")
    return BearerToken(_subject(claims, rules), int(expires_at_s * 1000), _scopes(claims, rules))


def _subject(claims: dict[str, Any], rules: TokenRules) -> str:
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip() or not subject.isprintable():
        raise InvalidToken(f"the claim {rules.subject_claim} does not name a user")
    return subject.strip()


def _scopes(claims: dict[str, Any], rules: TokenRules) -> tuple[str, ...]:
    scopes = claims.get(rules.scope_claim)
    if isinstance(scopes, str):
        return tuple(scopes.split())
    if not isinstance(scopes, list):
        return ()
    return tuple(each for each in scopes if isinstance(each, str))


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= _MAX_TIME_S  # NaN is not within any limits
    ):
        raise InvalidToken(f"the claim {name} is missing or no time")
    return value


def _json_object(part: str, what: str) -> dict[str, Any]:
    try:
        parsed = json.loads(_decoded(part))
    except (ValueError, RecursionError):
        raise InvalidToken(f"the {what} of the token: not JSON") from None
    if not isinstance(parsed, dict):
        raise InvalidToken(f"the {what} of the token: no JSON object")
    return parsed


def _decoded(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise InvalidToken("a part of the token is not base64url") from None
