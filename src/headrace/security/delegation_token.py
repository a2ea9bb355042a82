"""Delegation tokens: credentials that an authenticated user creates for other processes."""

from dataclasses import dataclass

from headrace.security.principal import Principal


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """What brokers store of a token. Its HMAC, which is its password, is derived from the id with
    `delegation.token.secret.key` and never stored."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int
