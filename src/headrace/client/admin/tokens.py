"""Delegation tokens: create, list, renew, expire.

The client must be logged in with other credentials than a token: the broker refuses requests for
tokens from token logins, and from connections without authentication.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, refusal
from headrace.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headrace.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headrace.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from headrace.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from headrace.security.principal import Principal

BROKER_DEFAULT = -1
AT_ONCE = -1
_WITH_OWNER = 3  # the first version of CreateDelegationToken with another owner


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """One token; the timestamps are in milliseconds since 1970."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    @property
    def password(self) -> str:
        """`sasl.password` for a login with the token; `sasl.username` is its id."""
        return base64.b64encode(self.hmac).decode()


async def create_token(
    client: ClusterClient,
    *,
    timeout_s: float,
    owner: Principal | None = None,
    renewers: Sequence[Principal] = (),
    max_lifetime_ms: int = BROKER_DEFAULT,
) -> TokenInfo | Refusal:
    """Creates a token for `owner`, or for the user of the client.

    The request is not sent again after a lost connection: a second token would remain unknown.
    """
    request = CreateDelegationTokenRequest(
        renewers=[
            CreatableRenewers(principal_type=each.type, principal_name=each.name)
            for each in renewers
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type = owner.type
        request.owner_principal_name = owner.name
    created = await client.send(
        request,
        CreateDelegationTokenResponse,
        timeout_s=timeout_s,
        retry=False,
        at_least=0 if owner is None else _WITH_OWNER,
    )
    failed = refusal(created.error_code)
    if failed is not None:
        return failed
    named = Principal(created.principal_type, created.principal_name)
    requester = Principal(
        created.token_requester_principal_type, created.token_requester_principal_name
    )
    return TokenInfo(
        token_id=created.token_id,
        hmac=bytes(created.hmac),
        owner=named,
        requester=requester if requester.name else named,  # not in versions before 3
        renewers=tuple(renewers),
        issue_ms=created.issue_timestamp_ms,
        expiry_ms=created.expiry_timestamp_ms,
        max_ms=created.max_timestamp_ms,
    )


async def describe_tokens(
    client: ClusterClient, *, timeout_s: float, owners: Sequence[Principal] | None = None
) -> list[TokenInfo] | Refusal:
    """The tokens that the user may see, by time of issue; with `owners`, only tokens of these."""
    named = None
    if owners is not None:
        named = [
            DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name)
            for each in owners
        ]
    described = await client.send(
        DescribeDelegationTokenRequest(owners=named),
        DescribeDelegationTokenResponse,
        timeout_s=timeout_s,
    )
    failed = refusal(described.error_code)
    if failed is not None:
        return failed
    found = map(_token_info, described.tokens)
    return sorted(found, key=lambda token: (token.issue_ms, token.token_id))


async def renew_token(
    client: ClusterClient, hmac: bytes, *, timeout_s: float, period_ms: int = BROKER_DEFAULT
) -> int | Refusal:
    """Renews the token with this HMAC; returns when it expires now."""
    renewed = await client.send(
        RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms),
        RenewDelegationTokenResponse,
        timeout_s=timeout_s,
    )
    return refusal(renewed.error_code) or renewed.expiry_timestamp_ms


async def expire_token(
    client: ClusterClient, hmac: bytes, *, timeout_s: float, period_ms: int = AT_ONCE
) -> int | Refusal:
    """Ends the token with this HMAC after a period, or at once; returns when it expires."""
    expired = await client.send(
        ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms),
        ExpireDelegationTokenResponse,
        timeout_s=timeout_s,
    )
    return refusal(expired.error_code) or expired.expiry_timestamp_ms


def _token_info(token: DescribedDelegationToken) -> TokenInfo:
    owner = Principal(token.principal_type, token.principal_name)
    requester = Principal(
        token.token_requester_principal_type, token.token_requester_principal_name
    )
    return TokenInfo(
        token_id=token.token_id,
        hmac=bytes(token.hmac),
        owner=owner,
        requester=requester if requester.name else owner,  # not in versions before 3
        renewers=tuple(
            Principal(each.principal_type, each.principal_name) for each in token.renewers
        ),
        issue_ms=token.issue_timestamp,
        expiry_ms=token.expiry_timestamp,
        max_ms=token.max_timestamp,
    )
