"""ExpireDelegationToken (key 40), versions 1-2: ends a token now or later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.token_changes import expire_token
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from headrace.security.tokens.delegation_token import allows_token_requests

if TYPE_CHECKING:
    from headrace.broker.node import Broker

NO_TIMESTAMP = -1


async def handle(
    broker: Broker, context: Context, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    session = context.session
    if not allows_token_requests(session):
        return ExpireDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            expiry_timestamp_ms=NO_TIMESTAMP,
        )
    tokens = broker.tokens
    if tokens is None:
        return ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token_id = await tokens.find(request.hmac)
    now_ms = broker.clock.wall_ms()
    (expired,) = await broker.metadata.decide(
        lambda controller: expire_token(
            controller.image, token_id, session.principal, request.expiry_time_period_ms, now_ms
        )
    )
    if expired.error.code == ErrorCode.NONE:
        broker.access.audit.log_change(
            session,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            "removed a delegation token"
            if request.expiry_time_period_ms < 0
            else "changed the expiry of a delegation token",
            id=token_id,
            expiry_ms=expired.expiry_ms,
        )
    return ExpireDelegationTokenResponse(
        error_code=expired.error.code, expiry_timestamp_ms=expired.expiry_ms
    )
