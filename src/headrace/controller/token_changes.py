"""Requests that create, renew and expire delegation tokens: Kafka's checks and times. Pure.

A caller has authorized the request and has found the token by its HMAC. Kafka has no limits on
tokens; here `MAX_TOKENS`, `MAX_RENEWERS` and `MAX_PRINCIPALS_BYTES` bound the metadata that clients
can create.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import DelegationTokenChanged, DelegationTokenRemoved
from headrace.cluster.topology import SECURITY_LEVEL
from headrace.controller.metadata_level import require_metadata_level
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from headrace.protocol.errors import ErrorCode
from headrace.protocol.types import encode_uuid
from headrace.security.principal import USER, Principal
from headrace.security.tokens.delegation_token import DelegationToken

MAX_TOKENS: Final = 10_000
"""Tokens of a cluster, expired ones included until they are removed."""
MAX_RENEWERS: Final = 100
MAX_PRINCIPALS_BYTES: Final = 4_096
"""The names of owner, requester and renewers together: a token must fit into one znode, and all
tokens into memory."""
_MAX_TIMESTAMP_MS: Final = 2**63 - 1


class TokenLifetimes(NamedTuple):
    """`delegation.token.max.lifetime.ms` and `delegation.token.expiry.time.ms`."""

    max_lifetime_ms: int
    expiry_time_ms: int


class NewToken(NamedTuple):
    """A token to create; without a positive `max_lifetime_ms` it has the longest lifetime."""

    owner: Principal
    requester: Principal
    renewers: Sequence[Principal] = ()
    max_lifetime_ms: int = -1


class CreatedToken(NamedTuple):
    """The new token, or an error."""

    token: DelegationToken | None = None
    error: ApiError = NO_ERROR


class TokenExpiry(NamedTuple):
    """When a token expires now, or an error."""

    expiry_ms: int = 0
    error: ApiError = NO_ERROR


def create_token(
    image: MetadataImage, new: NewToken, lifetimes: TokenLifetimes, now_ms: int, rng: Random
) -> ControllerResult[CreatedToken]:
    error = _check_new_token(image, new)
    if error.code != ErrorCode.NONE:
        return ControllerResult((), [CreatedToken(error=error)])
    max_ms = _later(now_ms, _shorter(lifetimes.max_lifetime_ms, new.max_lifetime_ms))
    token = DelegationToken(
        token_id=_new_token_id(image, rng),
        owner=new.owner._replace(token_authenticated=False),
        requester=new.requester._replace(token_authenticated=False),
        renewers=tuple(new.renewers),
        issue_ms=now_ms,
        expiry_ms=min(max_ms, _later(now_ms, lifetimes.expiry_time_ms)),
        max_ms=max_ms,
    )
    return ControllerResult((DelegationTokenChanged(token),), [CreatedToken(token)])


def renew_token(
    image: MetadataImage,
    token_id: str | None,
    renewer: Principal,
    period_ms: int,
    lifetimes: TokenLifetimes,
    now_ms: int,
) -> ControllerResult[TokenExpiry]:
    """Moves the expiry to `period_ms` from now, within the token's maximum; None: unknown token."""
    token = image.delegation_tokens.get(token_id or "")
    if token is None:
        return _refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if token.is_expired(now_ms):
        return _refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not token.may_renew(renewer):
        return _refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    period_ms = _shorter(lifetimes.expiry_time_ms, period_ms)
    return _set_expiry(token, min(token.max_ms, _later(now_ms, period_ms)))


def expire_token(
    image: MetadataImage, token_id: str | None, principal: Principal, period_ms: int, now_ms: int
) -> ControllerResult[TokenExpiry]:
    """Ends the token `period_ms` from now; a negative period removes it at once."""
    token = image.delegation_tokens.get(token_id or "")
    if token is None:
        return _refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if not token.may_renew(principal):
        return _refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    if period_ms < 0:
        removed = DelegationTokenRemoved(token.token_id)
        return ControllerResult((removed,), [TokenExpiry(now_ms)])
    if token.is_expired(now_ms):
        return _refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _set_expiry(token, min(token.max_ms, _later(now_ms, period_ms)))


def _check_new_token(image: MetadataImage, new: NewToken) -> ApiError:
    principals = (new.owner, new.requester, *new.renewers)
    if any(each.type != USER for each in principals):
        return ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if not all(each.name for each in principals):
        return ApiError(ErrorCode.INVALID_REQUEST, "a principal has an empty name")
    if len(new.renewers) > MAX_RENEWERS:
        return ApiError(ErrorCode.POLICY_VIOLATION, f"more than {MAX_RENEWERS} renewers")
    size_bytes = sum(len(str(each).encode()) for each in principals)
    if size_bytes > MAX_PRINCIPALS_BYTES:
        why = f"the principals have {size_bytes} bytes, more than {MAX_PRINCIPALS_BYTES}"
        return ApiError(ErrorCode.POLICY_VIOLATION, why)
    try:
        require_metadata_level(image, SECURITY_LEVEL, "delegation tokens")
    except Refused as refused:
        return refused.error
    if len(image.delegation_tokens) >= MAX_TOKENS:
        return ApiError(ErrorCode.POLICY_VIOLATION, f"the cluster has {MAX_TOKENS} tokens")
    return NO_ERROR


def _new_token_id(image: MetadataImage, rng: Random) -> str:
    """A new id in Kafka's form of a UUID; a leading dash would look like an option of a command."""
    while True:
        token_id = encode_uuid(rng.randbytes(16))
        if not token_id.startswith("-") and token_id not in image.delegation_tokens:
            return token_id


def _shorter(limit_ms: int, wanted_ms: int) -> int:
    """The wanted period within the limit; the limit if the client has no wish."""
    return min(limit_ms, wanted_ms) if wanted_ms > 0 else limit_ms


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _MAX_TIMESTAMP_MS)


def _set_expiry(token: DelegationToken, expiry_ms: int) -> ControllerResult[TokenExpiry]:
    changed = DelegationTokenChanged(replace(token, expiry_ms=expiry_ms))
    return ControllerResult((changed,), [TokenExpiry(expiry_ms)])


def _refused(code: ErrorCode) -> ControllerResult[TokenExpiry]:
    return ControllerResult((), [TokenExpiry(error=ApiError(code))])
