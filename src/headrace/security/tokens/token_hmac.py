"""The HMACs of delegation tokens: derived from the secret key and the id, never stored. Pure.

They are Kafka's: HMAC-SHA-512 of the id with `delegation.token.secret.key`. Every broker with the
same key derives the same HMAC.
"""

import hmac
from collections.abc import Collection, Mapping
from itertools import islice


def token_hmac(secret_key: bytes, token_id: str) -> bytes:
    """The HMAC of a token. Its base64 text is the password of the token."""
    return hmac.digest(secret_key, token_id.encode(), "sha512")


class TokenHmacIndex:
    """Finds tokens by their HMAC, which is how requests name them.

    Derives the HMAC of each token once, in slices: after a change of the controller, none of them
    is known. A search is a dictionary lookup, whose hash has a key of this process: its time says
    nothing about the HMACs of other tokens.
    """

    def __init__(self, secret_key: bytes) -> None:
        self._secret_key = secret_key
        self._tokens: Collection[str] = ()
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}

    def __repr__(self) -> str:
        return f"TokenHmacIndex({len(self._hmacs)} tokens)"

    def follow(self, tokens: Mapping[str, object], limit: int) -> bool:
        """Indexes up to `limit` of the tokens that are not indexed yet; returns whether the index
        now has these tokens and no others."""
        if tokens is self._tokens:
            return True
        for token_id in self._hmacs.keys() - tokens.keys():
            del self._ids[self._hmacs.pop(token_id)]
        new = list(islice((each for each in tokens if each not in self._hmacs), limit))
        for token_id in new:
            derived = self._hmacs[token_id] = token_hmac(self._secret_key, token_id)
            self._ids[derived] = token_id
        if len(self._hmacs) == len(tokens):
            self._tokens = tokens
            return True
        return False

    def find(self, wanted: bytes) -> str | None:
        """The id of the token with this HMAC."""
        return self._ids.get(wanted)
