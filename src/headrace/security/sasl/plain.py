"""PLAIN (RFC 4616): one token with the user and the password.

A client may not act as another user: the authorization id must be empty or the user itself. The
password of an unknown user is compared with a dummy, so that an unknown user costs the same work
and gets the same answer as a wrong password.
"""

import hashlib
from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

from headrace.security.principal import user
from headrace.security.sasl.exchange import OTHER_AUTHORIZATION_ID, Failure, Outcome, Success

_PARTS: Final = 3
_INVALID: Final = "Authentication failed: Invalid username or password"
_DUMMY: Final = hashlib.sha256(b"the password of a user that does not exist").digest()


class PlainUsers:
    """The users of PLAIN on one listener. Only digests of the passwords are kept."""

    __slots__ = ("_digests",)

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._digests = {name: _digest(password) for name, password in passwords.items()}

    def has_password(self, name: str, password: str) -> bool:
        """Whether the user exists and has this password; the time does not depend on which."""
        is_equal = compare_digest(self._digests.get(name, _DUMMY), _digest(password))
        return is_equal and name in self._digests


class PlainExchange:
    """Implements `Exchange`."""

    __slots__ = ("_users",)

    def __init__(self, users: PlainUsers) -> None:
        self._users = users

    def respond(self, token: bytes) -> Outcome:
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            return Failure("the token is not UTF-8")
        if len(parts) != _PARTS:
            text = f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}"
            return Failure(text, text)
        authorization_id, name, password = parts
        if not name:
            return Failure("no user name", "Authentication failed: username not specified")
        if not password:
            return Failure("no password", "Authentication failed: password not specified")
        if not self._users.has_password(name, password):
            return Failure("invalid user or password", _INVALID, name)
        if authorization_id not in ("", name):
            reason = f"asked to act as {authorization_id!r}"
            return Failure(reason, OTHER_AUTHORIZATION_ID, name)
        return Success(user(name))


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode(errors="surrogatepass")).digest()
