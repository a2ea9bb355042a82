"""Credentials for the HTTP ports of brokers, from client settings. Pure.

They are settings of their own: the user and password of the Kafka listener must not reach a port
without TLS only because a broker has one.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.cli.error_messages import usage

USERNAME: Final = "http.username"
PASSWORD: Final = "http.password"  # noqa: S105 - the name of a setting
TOKEN: Final = "http.bearer.token"  # noqa: S105


class HttpLogin(NamedTuple):
    """How to log in to HTTP ports; by default without credentials."""

    authorization: str | None = None
    """The value of the header."""
    ca_file: str | None = None
    """The CA certificates for HTTPS (PEM); None means those of the system."""


def http_login(settings: Mapping[str, str]) -> HttpLogin:
    """Raises `CommandFailed` if the settings contradict each other."""
    name, password, token = (settings.get(each) for each in (USERNAME, PASSWORD, TOKEN))
    ca_file = settings.get("https.ca.location") or settings.get("ssl.ca.location")
    if token and (name or password):
        raise usage(f"{TOKEN} and {USERNAME} exclude each other")
    if token:
        return HttpLogin(f"Bearer {token}", ca_file)
    if not name and not password:
        return HttpLogin(None, ca_file)
    if not name or not password:
        raise usage(f"set both {USERNAME} and {PASSWORD}, or neither")
    encoded = b64encode(f"{name}:{password}".encode()).decode("ascii")
    return HttpLogin(f"Basic {encoded}", ca_file)
