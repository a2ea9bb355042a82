"""The client of a request that a broker forwards without an envelope, as part of the client id.

Without an authorizer, a broker forwards requests under its own identity, which a controller of any
release accepts. The client's id and address are only for the log of the controller. Pure.
"""

from typing import Final, NamedTuple

ORIGIN_MARK: Final = " for "
_AT: Final = " at "
MAX_CHARS: Final = 200
"""Of the client's own id: a header's client id is at most 32 kB."""


class RequestOrigin(NamedTuple):
    """A client id and an address."""

    client_id: str
    host: str


def origin_of(client_id: str, host: str) -> str:
    """The text that follows the broker's own client id and `ORIGIN_MARK`."""
    return f"{client_id[:MAX_CHARS]}{_AT}{host}"


def parse_origin(client_id: str) -> RequestOrigin | None:
    """The client that a broker's client id names; None if it names none."""
    _, mark, origin = client_id.partition(ORIGIN_MARK)
    name, at, host = origin.rpartition(_AT)
    return RequestOrigin(name, host) if mark and at else None
