"""SaslHandshake (key 17), versions 0-1: chooses the SASL mechanism.

Logins serve it (`broker/authentication/login.py`). Here it is too late: the client is authenticated
and its session has no end, it has logged in again a moment ago, or its listener has no SASL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
