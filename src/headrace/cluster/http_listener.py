"""The address of the broker's HTTP port. Pure."""

import re
from typing import Final

from headrace.cluster.listeners import MAX_PORT, BadListener, Listener

LISTENER_NAME: Final = "HTTP"
"""Its own TLS settings begin with `listener.name.http.`."""

_ADDRESS: Final = re.compile(
    r"(https?)://(\[[0-9A-Fa-f:.%a-z]+\]|[^:/\[\]\s@?#]*):([0-9]{1,5})/?", re.IGNORECASE
)
_LOOPBACK: Final = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|\[::1\]", re.IGNORECASE)


def read_http_listener(address: str) -> Listener | None:
    """The listener of `http://host:port`; None if the text is empty; raises `BadListener`."""
    if not address:
        return None
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise BadListener("must be of the form http://host:port or https://host:port")
    scheme, host, port = match[1].lower(), match[2], int(match[3])
    if port > MAX_PORT:
        raise BadListener(f"the port must be from 0 to {MAX_PORT}")
    return Listener(LISTENER_NAME, host, port, "SSL" if scheme == "https" else "PLAINTEXT")


def is_loopback(listener: Listener) -> bool:
    """Whether only this machine can connect."""
    return _LOOPBACK.fullmatch(listener.host) is not None
