"""The HMACs of delegation tokens: derived from the secret key and the id, never stored. Pure.

They are Kafka's: HMAC-SHA-512 of the id with `delegation.token.secret.key`. Every broker with the
same key derives the same HMAC.
"""

import hmac
from collections.abc import Mapping

from headrace.security.delegation_token import DelegationToken


def token_hmac(secret_key: bytes, token_id: str) -> bytes:
    """The HMAC of a token. Its base64 text is the password of the token."""
    return hmac.digest(secret_key, token_id.encode(), "sha512")


class TokenHmacIndex:
    """Finds tokens by their HMAC, which is how requests name them.

    Derives the HMAC of each token once, at the first search after the token was created. A search
    is a dictionary lookup, whose hash has a key of this process: its time says nothing about the
    HMACs of other tokens.
    """

    def __init__(self, secret_key: bytes) -> None:
        self._secret_key = secret_key
        self._tokens: Mapping[str, DelegationToken] = {}
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}

    def __repr__(self) -> str:
        return f"TokenHmacIndex({len(self._hmacs)} tokens)"

    def find(self, tokens: Mapping[str, DelegationToken], wanted: bytes) -> DelegationToken | None:
        """The token with this HMAC among `tokens`."""
        if tokens is not self._tokens:
            self._index_changes(tokens)
        token_id = self._ids.get(wanted)
        return None if token_id is None else tokens[token_id]

    def _index_changes(self, tokens: Mapping[str, DelegationToken]) -> None:
        for token_id in self._hmacs.keys() - tokens.keys():
            del self._ids[self._hmacs.pop(token_id)]
        for token_id in tokens.keys() - self._hmacs.keys():
            derived = self._hmacs[token_id] = token_hmac(self._secret_key, token_id)
            self._ids[derived] = token_id
        self._tokens = tokens
