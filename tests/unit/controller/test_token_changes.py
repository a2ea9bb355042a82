"""Delegation tokens: Kafka's times and errors, within limits."""

from random import Random

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import DelegationTokenChanged, DelegationTokenRemoved
from headrace.controller import token_changes
from headrace.controller.token_changes import (
    MAX_PRINCIPALS_BYTES,
    MAX_RENEWERS,
    NewToken,
    TokenExpiry,
    TokenLifetimes,
    create_token,
    expire_token,
    renew_token,
)
from headrace.protocol.errors import ErrorCode
from headrace.security.principal import Principal, user
from headrace.security.tokens.delegation_token import DelegationToken

NOW_MS = 10_000
LIFETIMES = TokenLifetimes(max_lifetime_ms=1_000, expiry_time_ms=100)
OWNER, RENEWER = user("owner"), user("renewer")
END_OF_TIME_MS = 2**63 - 1


def created(
    image: MetadataImage, new: NewToken, lifetimes: TokenLifetimes = LIFETIMES
) -> tuple[MetadataImage, DelegationToken]:
    outcome = create_token(image, new, lifetimes, NOW_MS, Random(1))
    token = outcome.results[0].token
    assert token is not None, outcome.results[0].error
    assert outcome.records == (DelegationTokenChanged(token),)
    return image.apply(outcome.records), token


@pytest.fixture
def image() -> MetadataImage:
    return MetadataImage()


def renewed(
    image: MetadataImage, token_id: str | None, period_ms: int, *, by: Principal = OWNER, at: int
) -> tuple[MetadataImage, TokenExpiry]:
    outcome = renew_token(image, token_id, by, period_ms, LIFETIMES, at)
    return image.apply(outcome.records), outcome.results[0]


def code_of_creation(image: MetadataImage, new: NewToken) -> ErrorCode:
    outcome = create_token(image, new, LIFETIMES, NOW_MS, Random(1))
    assert outcome.records == ()
    assert outcome.results[0].token is None
    return outcome.results[0].error.code


# --- create -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted_ms", "max_ms", "expiry_ms"),
    [(-1, 11_000, 10_100), (0, 11_000, 10_100), (2_000, 11_000, 10_100), (50, 10_050, 10_050)],
)
def test_a_token_ends_with_its_lifetime_or_must_be_renewed_before(
    image: MetadataImage, wanted_ms: int, max_ms: int, expiry_ms: int
) -> None:
    _, token = created(image, NewToken(OWNER, user("requester"), (RENEWER,), wanted_ms))
    assert (token.issue_ms, token.max_ms, token.expiry_ms) == (NOW_MS, max_ms, expiry_ms)
    assert (token.owner, token.requester, token.renewers) == (
        OWNER,
        user("requester"),
        (RENEWER,),
    )


def test_times_beyond_a_64_bit_number_are_its_largest(image: MetadataImage) -> None:
    forever = TokenLifetimes(END_OF_TIME_MS, END_OF_TIME_MS)
    image, token = created(image, NewToken(OWNER, OWNER), forever)
    assert (token.max_ms, token.expiry_ms) == (END_OF_TIME_MS, END_OF_TIME_MS)
    outcome = renew_token(image, token.token_id, OWNER, END_OF_TIME_MS, forever, NOW_MS)
    assert outcome.results == [TokenExpiry(END_OF_TIME_MS)]
    outcome = expire_token(image, token.token_id, OWNER, END_OF_TIME_MS, NOW_MS)
    assert outcome.results == [TokenExpiry(END_OF_TIME_MS)]


def test_each_token_has_its_own_id(image: MetadataImage) -> None:
    rng = Random(1)
    for _ in range(200):
        outcome = create_token(image, NewToken(OWNER, OWNER), LIFETIMES, NOW_MS, rng)
        image = image.apply(outcome.records)
    assert len(image.delegation_tokens) == 200
    assert not [each for each in image.delegation_tokens if each.startswith("-")]


def test_only_users_may_own_and_renew_tokens(image: MetadataImage) -> None:
    group = Principal("Group", "admins")
    for new in (NewToken(OWNER, OWNER, (RENEWER, group)), NewToken(group, OWNER)):
        assert code_of_creation(image, new) == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_a_principal_without_a_name_is_refused(image: MetadataImage) -> None:
    new = NewToken(OWNER, OWNER, (Principal("User", ""),))
    assert code_of_creation(image, new) == ErrorCode.INVALID_REQUEST


def test_renewers_are_limited_by_number_and_by_size(image: MetadataImage) -> None:
    many = [user(f"u{number}") for number in range(MAX_RENEWERS)]
    created(image, NewToken(OWNER, OWNER, many))
    more = NewToken(OWNER, OWNER, [*many, RENEWER])
    assert code_of_creation(image, more) == ErrorCode.POLICY_VIOLATION
    long = NewToken(OWNER, OWNER, (user("é" * (MAX_PRINCIPALS_BYTES // 2)),))
    assert code_of_creation(image, long) == ErrorCode.POLICY_VIOLATION


def test_tokens_in_all_are_limited(image: MetadataImage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_changes, "MAX_TOKENS", 1)
    image, _ = created(image, NewToken(OWNER, OWNER))
    assert code_of_creation(image, NewToken(OWNER, OWNER)) == ErrorCode.POLICY_VIOLATION


# --- renew ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("period_ms", "expiry_ms"), [(-1, 10_150), (0, 10_150), (30, 10_080), (10_000, 10_150)]
)
def test_a_renewal_lasts_as_long_as_asked_within_the_expiry_time(
    image: MetadataImage, period_ms: int, expiry_ms: int
) -> None:
    image, token = created(image, NewToken(OWNER, OWNER))
    image, result = renewed(image, token.token_id, period_ms, at=NOW_MS + 50)
    assert result == TokenExpiry(expiry_ms)
    assert image.delegation_tokens[token.token_id].expiry_ms == expiry_ms
    assert image.delegation_tokens[token.token_id].max_ms == token.max_ms


def test_no_renewal_lasts_past_the_maximum(image: MetadataImage) -> None:
    image, token = created(image, NewToken(OWNER, OWNER, (), 120))
    image, result = renewed(image, token.token_id, -1, at=NOW_MS + 100)
    assert result.expiry_ms == token.max_ms == NOW_MS + 120
    _, result = renewed(image, token.token_id, -1, at=NOW_MS + 121)
    assert result.error.code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_a_renewer_may_renew_and_expire_but_the_requester_may_not(image: MetadataImage) -> None:
    image, token = created(image, NewToken(OWNER, user("requester"), (RENEWER,)))
    _, result = renewed(image, token.token_id, -1, by=RENEWER, at=NOW_MS)
    assert result.error.code == ErrorCode.NONE
    _, result = renewed(image, token.token_id, -1, by=user("requester"), at=NOW_MS)
    assert result.error.code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    refused = expire_token(image, token.token_id, user("requester"), -1, NOW_MS)
    assert refused.results[0].error.code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert refused.records == ()


@pytest.mark.parametrize("token_id", [None, "", "unknown"])
def test_an_unknown_token_is_neither_renewed_nor_expired(
    image: MetadataImage, token_id: str | None
) -> None:
    _, result = renewed(image, token_id, -1, at=NOW_MS)
    assert result.error.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    outcome = expire_token(image, token_id, OWNER, -1, NOW_MS)
    assert outcome.results[0].error.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert outcome.records == ()


# --- expire and remove ------------------------------------------------------------------------


def test_a_negative_period_removes_the_token_at_once(image: MetadataImage) -> None:
    image, token = created(image, NewToken(OWNER, OWNER))
    outcome = expire_token(image, token.token_id, OWNER, -1, NOW_MS + 7)
    assert outcome.results == [TokenExpiry(NOW_MS + 7)]
    assert outcome.records == (DelegationTokenRemoved(token.token_id),)


def test_a_period_moves_the_expiry_up_to_the_maximum(image: MetadataImage) -> None:
    image, token = created(image, NewToken(OWNER, OWNER))
    for period_ms, expiry_ms in ((0, NOW_MS), (30, NOW_MS + 30), (5_000, token.max_ms)):
        outcome = expire_token(image, token.token_id, OWNER, period_ms, NOW_MS)
        assert outcome.results == [TokenExpiry(expiry_ms)]
        changed = image.apply(outcome.records).delegation_tokens[token.token_id]
        assert changed.expiry_ms == expiry_ms


def test_an_expired_token_may_be_removed_but_not_prolonged(image: MetadataImage) -> None:
    image, token = created(image, NewToken(OWNER, OWNER))
    late_ms = token.expiry_ms + 1
    refused = expire_token(image, token.token_id, OWNER, 100, late_ms)
    assert refused.results[0].error.code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    _, result = renewed(image, token.token_id, -1, at=late_ms)
    assert result.error.code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    removed = expire_token(image, token.token_id, OWNER, -1, late_ms)
    assert removed.results[0].error.code == ErrorCode.NONE
