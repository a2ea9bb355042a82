"""CreateDelegationToken (key 38), versions 1-3: creates a token for the client or, from v3 on, for
another user."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.token_changes import CreatedToken, NewToken, create_token
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.security.principal import USER, Principal
from headrace.security.tokens.delegation_token import allows_token_requests

if TYPE_CHECKING:
    from headrace.broker.node import Broker

log = logging.getLogger(__package__)

NO_TIMESTAMP = -1
FIRST_VERSION_WITH_REQUESTER = 3


async def handle(
    broker: Broker, context: Context, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    requester = context.session.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    renewers = [Principal(each.principal_type, each.principal_name) for each in request.renewers]
    response = _response(context, owner)
    response.error_code = _check(broker, context, owner, renewers)
    if response.error_code != ErrorCode.NONE:
        response.issue_timestamp_ms = NO_TIMESTAMP
        response.expiry_timestamp_ms = NO_TIMESTAMP
        response.max_timestamp_ms = NO_TIMESTAMP
        return response
    tokens = broker.tokens
    if tokens is None:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return response
    new = NewToken(owner, requester, renewers, request.max_lifetime_ms)
    now_ms = broker.clock.wall_ms()
    (created,) = await broker.metadata.decide(
        lambda controller: create_token(
            controller.image, new, tokens.lifetimes, now_ms, broker.random
        )
    )
    _log_result(broker, context, created)
    response.error_code = created.error.code
    if created.token is not None:
        response.issue_timestamp_ms = created.token.issue_ms
        response.expiry_timestamp_ms = created.token.expiry_ms
        response.max_timestamp_ms = created.token.max_ms
        response.token_id = created.token.token_id
        response.hmac = tokens.hmac_of(created.token)
    return response


def _log_result(broker: Broker, context: Context, created: CreatedToken) -> None:
    token = created.token
    if token is None:
        fields = {
            "requester": str(context.session.principal),
            "reason": created.error.message or created.error.code.name,
        }
        log.info("refused to create a delegation token", extra=fields)
        return
    broker.access.audit.log_change(
        context.session,
        ApiKey.CREATE_DELEGATION_TOKEN,
        "created a delegation token",
        id=token.token_id,
        owner=token.owner,
        renewers=",".join(map(str, token.renewers)) or "-",
        expiry_ms=token.expiry_ms,
    )


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


def _response(context: Context, owner: Principal) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(principal_type=owner.type, principal_name=owner.name)
    if context.version >= FIRST_VERSION_WITH_REQUESTER:
        requester = context.session.principal
        response.token_requester_principal_type = requester.type
        response.token_requester_principal_name = requester.name
    return response
