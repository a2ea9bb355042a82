"""The identity that a request acts as."""

from dataclasses import dataclass
from typing import Final

from headrace.security.principal import ANONYMOUS, Principal


@dataclass(frozen=True, slots=True)
class Session:
    """The authenticated user of a connection, or of the client whose request was forwarded.

    `host` is the client's IP address without a port, as ACLs name it.
    """

    principal: Principal
    host: str
    listener: str
    security_protocol: str = "PLAINTEXT"
    token_id: str | None = None
    """The delegation token that the client logged in with."""
    is_internal: bool = False
    """A request of this broker itself: it may do everything."""


UNKNOWN_CLIENT: Final = Session(ANONYMOUS, "", "")
INTERNAL: Final = Session(ANONYMOUS, "", "", is_internal=True)
"""This broker's own requests."""
