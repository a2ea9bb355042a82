"""OAUTHBEARER (RFC 7628): one message with a bearer token.

A client whose token is refused gets the status `invalid_token`, answers with one byte, and then
gets the failure, as RFC 7628 requires. The reason is only in the broker's log.
"""

import re
from collections.abc import Callable
from typing import Final

from headrace.security.principal import user
from headrace.security.sasl.exchange import Challenge, Failure, Outcome, Success, UnknownKey
from headrace.security.sasl.jwt import MAX_TOKEN_CHARS, BearerToken, InvalidToken, UnknownKeyId

REFUSAL: Final = '{"status":"invalid_token"}'
MAX_MESSAGE_BYTES: Final = MAX_TOKEN_CHARS + 8 * 1024
"""Clients that are not authenticated send these: to parse one must not keep others waiting."""
# At most 32 extensions, and 1,024 characters of a name, for the same reason.
_MESSAGE: Final = re.compile(
    r"[ny],(?:a=((?:[^=,\x00\x01]|=2C|=3D){1,1024}))?,\x01"
    r"((?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01){0,33})\x01"
)
_BEARER: Final = re.compile(r"bearer +([\x21-\x7e]+)", re.IGNORECASE)


class OAuthBearerExchange:
    """Implements `Exchange`."""

    def __init__(self, validate: Callable[[str], BearerToken]) -> None:
        """`validate` raises `InvalidToken`."""
        self._validate = validate
        self._refused: InvalidToken | None = None
        self._looked_for_key = False

    def respond(self, token: bytes) -> Outcome:
        if self._refused is not None:
            return Failure(str(self._refused), REFUSAL)
        if len(token) > MAX_MESSAGE_BYTES:
            return Failure("the client's message is too long")
        try:
            match = _MESSAGE.fullmatch(token.decode())
        except UnicodeDecodeError:
            match = None
        if match is None:
            return Failure("the client's message is malformed")
        authorization_id, pairs = match.groups()
        fields = dict(pair.split("=", 1) for pair in pairs.split("\1") if pair)
        bearer = _BEARER.fullmatch(fields.get("auth", ""))
        if bearer is None:
            return Failure("the client's message has no bearer token")
        return self._check(bearer[1], authorization_id)

    def _check(self, bearer: str, authorization_id: str | None) -> Outcome:
        try:
            valid = self._validate(bearer)
        except UnknownKeyId as error:
            if not self._looked_for_key:
                self._looked_for_key = True
                return UnknownKey(error.key_id)
            return self._refuse(error)
        except InvalidToken as error:
            return self._refuse(error)
        acting_as = (authorization_id or "").replace("=2C", ",").replace("=3D", "=")
        if acting_as not in ("", valid.subject):
            return Failure(
                f"asked to act as {acting_as!r}",
                "Authentication failed: Client requested an authorization id that is different "
                "from the token's principal name",
                valid.subject,
            )
        return Success(user(valid.subject), expires_at_ms=valid.expires_at_ms)

    def _refuse(self, error: InvalidToken) -> Challenge:
        self._refused = error
        return Challenge(REFUSAL.encode())
