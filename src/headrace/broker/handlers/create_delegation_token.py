"""CreateDelegationToken (key 38), versions 1-3: creates a token for the client or, from v3 on, for
another user."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.token_changes import NewToken, create_token
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headrace.security.acl import AclOperation, AclResourceType
from headrace.security.delegation_token import allows_token_requests
from headrace.security.principal import USER, Principal

if TYPE_CHECKING:
    from headrace.broker.node import Broker

log = logging.getLogger(__name__)

NO_TIMESTAMP = -1


async def handle(
    broker: Broker, context: Context, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    requester = context.session.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    renewers = [Principal(each.principal_type, each.principal_name) for each in request.renewers]
    code = _check(broker, context, owner, renewers)
    if code != ErrorCode.NONE:
        response = _response(owner, requester, code)
        response.issue_timestamp_ms = NO_TIMESTAMP
        response.expiry_timestamp_ms = NO_TIMESTAMP
        response.max_timestamp_ms = NO_TIMESTAMP
        return response
    tokens = broker.tokens
    if tokens is None:
        return _response(owner, requester, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    new = NewToken(owner, requester, renewers, request.max_lifetime_ms)
    now_ms = broker.clock.wall_ms()
    (created,) = await broker.metadata.decide(
        lambda controller: create_token(
            controller.image, new, tokens.lifetimes, now_ms, broker.random
        )
    )
    response = _response(owner, requester, created.error.code)
    token = created.token
    if token is None:
        log.info(
            "refused to create a delegation token",
            extra={"requester": str(requester), "reason": created.error.message},
        )
    else:
        log.info(
            "created a delegation token",
            extra={"id": token.token_id, "owner": str(owner), "requester": str(requester)},
        )
        response.issue_timestamp_ms = token.issue_ms
        response.expiry_timestamp_ms = token.expiry_ms
        response.max_timestamp_ms = token.max_ms
        response.token_id = token.token_id
        response.hmac = tokens.hmac_of(token)
    return response


def _check(
    broker: Broker, context: Context, owner: Principal, renewers: list[Principal]
) -> ErrorCode:
    """The checks that do not depend on the settings, in Kafka's order."""
    session = context.session
    if not allows_token_requests(session):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != session.principal and not broker.access.allows(
        session, AclOperation.CREATE_TOKENS, AclResourceType.USER, str(owner)
    ):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if any(each.type != USER for each in renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return ErrorCode.NONE


def _response(
    owner: Principal, requester: Principal, code: ErrorCode
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
