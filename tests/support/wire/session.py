"""Gives a connection another session, as a login does, on a broker in this process."""

from headrace.security.principal import Principal
from headrace.security.session import Session
from headrace.testing import Broker
from support.wire.connection import Wire


def act_as(
    broker: Broker,
    wire: Wire,
    principal: Principal,
    *,
    protocol: str = "SASL_PLAINTEXT",
    token_id: str | None = None,
) -> None:
    """From now on the requests of `wire` act for `principal`."""
    node = broker.node
    assert node is not None
    host, port = wire.socket.getsockname()
    session = Session(principal, host, "CLIENTS", protocol, token_id)

    def replace() -> bool:
        for connection in node.server._connections:
            if connection.peer == f"{host}:{port}":
                connection.session = session
                return True
        return False

    assert broker.on_loop(replace)
