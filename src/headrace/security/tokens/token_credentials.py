"""The SCRAM credentials of delegation tokens, derived when a client logs in with one. Pure.

Kafka derives the credentials of all tokens for all mechanisms when it loads them. A derivation
costs 1 to 3 ms, so here it runs at the first login with a token and mechanism, and the last
`MAX_CACHED_CREDENTIALS` results are kept. It never runs for an unknown or expired token.
"""

import base64
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.security.principal import Principal
from headrace.security.sasl.scram_credential import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)
from headrace.security.tokens.delegation_token import DelegationToken
from headrace.security.tokens.token_hmac import token_hmac

MAX_CACHED_CREDENTIALS: Final = 1_000
"""Tokens and mechanisms that are in use at the same time on one broker; about 0.5 MB."""
_SALT_BYTES: Final = 26  # as long as the salts that Kafka's tools make


class TokenLogin(NamedTuple):
    """What a login with a token is checked against, and what it results in."""

    token_id: str
    credential: ScramCredential
    principal: Principal
    expiry_ms: int
    """When the session must end, unless the token was renewed by then."""


class TokenCredentials:
    """The credentials of one broker's tokens."""

    def __init__(self, secret_key: bytes, *, max_cached: int = MAX_CACHED_CREDENTIALS) -> None:
        self._secret_key = secret_key
        self._max_cached = max_cached
        self._cache: OrderedDict[tuple[str, ScramMechanism], ScramCredential] = OrderedDict()

    def __repr__(self) -> str:
        return f"TokenCredentials({len(self._cache)} cached)"

    def login(
        self,
        tokens: Mapping[str, DelegationToken],
        token_id: str,
        mechanism: ScramMechanism,
        now_ms: int,
    ) -> TokenLogin | None:
        """The credential and the identity of a token; None for an unknown or expired token."""
        token = tokens.get(token_id)
        if token is None or token.is_expired(now_ms):
            return None
        expiry_ms = min(token.expiry_ms, token.max_ms)
        return TokenLogin(token_id, self._credential(token_id, mechanism), token.login(), expiry_ms)

    def _credential(self, token_id: str, mechanism: ScramMechanism) -> ScramCredential:
        key = (token_id, mechanism)
        found = self._cache.get(key)
        if found is not None:
            self._cache.move_to_end(key)
            return found
        derived = self._cache[key] = derive_credential(self._secret_key, token_id, mechanism)
        if len(self._cache) > self._max_cached:
            self._cache.popitem(last=False)
        return derived


def derive_credential(
    secret_key: bytes, token_id: str, mechanism: ScramMechanism
) -> ScramCredential:
    """The credential for the password that is the base64 text of the token's HMAC.

    The salt is derived as well, so that all brokers have the same one.
    """
    password = base64.b64encode(token_hmac(secret_key, token_id))
    label = f"salt {mechanism.mechanism_name} {token_id}".encode()
    salt = hmac.digest(secret_key, label, "sha256")[:_SALT_BYTES]
    salted = hashlib.pbkdf2_hmac(mechanism.algorithm, password, salt, MIN_ITERATIONS)
    return credential_of(mechanism, salt, salted, MIN_ITERATIONS)
