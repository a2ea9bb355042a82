"""DescribeDelegationToken (key 41), versions 1-3: lists tokens, each with its HMAC.

A token is hidden from a client that is not its owner, requester or renewer and has neither DESCRIBE
on the token nor DESCRIBE_TOKENS on its owner.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.security.principal import Principal
from headrace.security.session import Session
from headrace.security.tokens.delegation_token import DelegationToken, allows_token_requests

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_REQUESTER: Final = 3
TOKENS_PER_SLICE: Final = 50
"""Tokens between two pauses: other clients wait about 1 ms."""


async def handle(
    broker: Broker, context: Context, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    session = context.session
    if not allows_token_requests(session):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return DescribeDelegationTokenResponse(error_code=code)
    tokens = broker.tokens
    if tokens is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {Principal(each.principal_type, each.principal_name) for each in request.owners}
    response = DescribeDelegationTokenResponse()
    known = broker.metadata.image.delegation_tokens.values()
    for number, token in enumerate(known, start=1):
        if number % TOKENS_PER_SLICE == 0:
            await asyncio.sleep(0)
        if token.is_asked_for(owners) and _is_shown(broker, session, token):
            response.tokens.append(_described(context.version, token, tokens.hmac_of(token)))
    return response


def _is_shown(broker: Broker, session: Session, token: DelegationToken) -> bool:
    shows = broker.access.shows
    return (
        token.belongs_to(session.principal)
        or shows(session, AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id)
        or shows(session, AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, str(token.owner))
    )


def _described(version: int, token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ],
    )
    if version >= FIRST_VERSION_WITH_REQUESTER:
        described.token_requester_principal_type = token.requester.type
        described.token_requester_principal_name = token.requester.name
    return described
