"""Delegation tokens: credentials that an authenticated user creates for other processes.

A client logs in with a token as with SCRAM: the user is the token id, the password is the HMAC of
the token in base64. It then acts as the owner of the token. `token_hmac` derives HMACs.
"""

from collections.abc import Collection
from dataclasses import dataclass

from headrace.security.principal import ANONYMOUS, Principal
from headrace.security.session import Session


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

    def is_expired(self, now_ms: int) -> bool:
        return min(self.expiry_ms, self.max_ms) < now_ms

    def may_renew(self, principal: Principal) -> bool:
        """Whether this user may renew and expire the token."""
        return _named(principal) in (self.owner, *self.renewers)

    def belongs_to(self, principal: Principal) -> bool:
        """Whether this user may see the token without an ACL."""
        return _named(principal) in (self.owner, self.requester, *self.renewers)

    def is_asked_for(self, users: Collection[Principal] | None) -> bool:
        """Whether a list request for these users includes the token; None asks for all."""
        return users is None or any(
            each in users for each in (self.owner, self.requester, *self.renewers)
        )

    def login(self) -> Principal:
        """The principal of a client that logged in with the token."""
        return self.owner._replace(token_authenticated=True)


def allows_token_requests(session: Session) -> bool:
    """Whether a client may create, renew, expire and list tokens.

    Not without authentication (PLAINTEXT, TLS without a client certificate). Not after a login with
    a token either: a token that leaks must not be able to create its successor.
    """
    if session.is_internal:
        return True
    if session.principal.token_authenticated or session.security_protocol == "PLAINTEXT":
        return False
    return not (session.security_protocol == "SSL" and session.principal == ANONYMOUS)


def _named(principal: Principal) -> Principal:
    return principal._replace(token_authenticated=False)
