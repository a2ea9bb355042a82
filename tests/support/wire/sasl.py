"""Logs a raw connection in with SASL."""

from headrace.client.login.sasl import start
from headrace.client.login.security import Credentials
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headrace.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from support.wire.connection import Wire

NONCE = "fyko+d2lbbFgONRv9qkxdawL"


def log_in(wire: Wire, credentials: Credentials) -> SaslAuthenticateResponse:
    """The last response of the exchange: a success, or the refusal."""
    handshake = SaslHandshakeRequest(mechanism=credentials.mechanism.value)
    accepted = wire.call(handshake, SaslHandshakeResponse)
    assert accepted.error_code == ErrorCode.NONE, accepted
    exchange = start(credentials, NONCE)
    token = next(exchange)
    while True:
        response = wire.call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
        if response.error_code:
            return response
        try:
            token = exchange.send(bytes(response.auth_bytes))
        except StopIteration:
            return response
