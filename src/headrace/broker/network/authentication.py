"""How the clients of one listener authenticate."""

from typing import Protocol

from headrace.broker.network.connection import Connection, Dispatch


class AuthenticationRefused(Exception):
    """A client that may not connect; the message has the reason."""


class Authentication(Protocol):
    """Given to the server for each listener whose clients are not anonymous."""

    def start(self, connection: Connection) -> Dispatch:
        """The dispatch for the requests of a new connection.

        Sets the session of a client that its certificate identifies. For SASL, it returns a
        dispatch that serves the login, which calls `Server.authenticated` at its end. Raises
        `AuthenticationRefused`, which closes the connection.
        """
        ...
