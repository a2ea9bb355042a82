"""One SASL exchange of a server: what it answers to a client's token.

Guarantees of every mechanism: `respond` returns an outcome for any bytes and raises nothing. A
failure has a reason for the broker's log, which may name the user and never contains a secret, and
a text for the client, which does not show whether the user exists.
"""

from dataclasses import dataclass, field
from typing import Protocol

from headrace.security.principal import Principal


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: the client gets this token and must answer it."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Success:
    """The client is authenticated; it gets the last token."""

    principal: Principal
    token: bytes = field(default=b"", repr=False)
    expires_at_ms: int | None = None
    """When the credential ends; None if it does not end by itself."""
    token_id: str | None = None
    """The delegation token that the client used."""
    credential: object = field(default=None, repr=False)
    """The stored credential that the client proved to know: it must still be the stored one when
    the session begins."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The client is not authenticated."""

    reason: str
    """For the log of the broker."""
    client_text: str | None = None
    """For the client; None for the text that says no more than that the credentials are invalid."""
    claimed_user: str = ""
    """The user that the client said it was, for the log; empty if it did not say."""


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """The token is signed with an unknown key: fetch the keys, then respond to the same token once
    more."""

    key_id: str


Outcome = Challenge | Success | Failure | UnknownKey


class Exchange(Protocol):
    """The exchange of one login."""

    def respond(self, token: bytes) -> Outcome:
        """The outcome of the client's next token. After a success or a failure there is none."""
        ...


def invalid_credentials_text(mechanism: str, *, reauthentication: bool = False) -> str:
    """Kafka's text for a client whose credentials are invalid for any reason."""
    during = "re-authentication" if reauthentication else "authentication"
    return (
        f"Authentication failed during {during} due to invalid credentials with SASL mechanism "
        f"{mechanism}"
    )


OTHER_AUTHORIZATION_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
