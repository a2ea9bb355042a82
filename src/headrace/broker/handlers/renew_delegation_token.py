"""RenewDelegationToken (key 39), versions 1-2: moves the expiry of a token into the future."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.token_changes import renew_token
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from headrace.security.tokens.delegation_token import allows_token_requests

if TYPE_CHECKING:
    from headrace.broker.node import Broker

NO_TIMESTAMP = -1


async def handle(
    broker: Broker, context: Context, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    session = context.session
    if not allows_token_requests(session):
        return RenewDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            expiry_timestamp_ms=NO_TIMESTAMP,
        )
    tokens = broker.tokens
    if tokens is None:
        return RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token_id = await tokens.find(request.hmac)
    now_ms = broker.clock.wall_ms()
    (renewed,) = await broker.metadata.decide(
        lambda controller: renew_token(
            controller.image,
            token_id,
            session.principal,
            request.renew_period_ms,
            tokens.lifetimes,
            now_ms,
        )
    )
    if renewed.error.code == ErrorCode.NONE:
        broker.access.audit.log_change(
            session,
            ApiKey.RENEW_DELEGATION_TOKEN,
            "renewed a delegation token",
            id=token_id,
            expiry_ms=renewed.expiry_ms,
        )
    return RenewDelegationTokenResponse(
        error_code=renewed.error.code, expiry_timestamp_ms=renewed.expiry_ms
    )
