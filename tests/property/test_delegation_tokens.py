"""Delegation tokens under any sequence of requests, sweeps and passing time."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_record_format import decode, encode
from headrace.cluster.metadata_records import MetadataRecord
from headrace.controller.result import ControllerResult
from headrace.controller.token_changes import (
    NewToken,
    TokenExpiry,
    TokenLifetimes,
    create_token,
    expire_token,
    renew_token,
)
from headrace.controller.token_expiry import MAX_REMOVED_AT_ONCE, remove_expired_tokens
from headrace.protocol.errors import ErrorCode
from headrace.security.principal import Principal, user
from headrace.security.tokens.token_hmac import TokenHmacIndex, token_hmac

SECRET_KEY = b"secret"
LIFETIMES = TokenLifetimes(max_lifetime_ms=1_000, expiry_time_ms=100)
USERS = [user("alice"), user("bob"), Principal("User", "c:d")]
LONGEST_MS = 2**63 - 1
PERIODS = st.one_of(st.integers(-2, 2_000), st.just(LONGEST_MS), st.just(-LONGEST_MS))
PRINCIPALS = st.sampled_from(USERS)


class Tokens(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.image = MetadataImage()
        self.now_ms = 1_000
        self.rng = Random(1)
        self.index = TokenHmacIndex(SECRET_KEY)
        self.known: list[str] = []

    def commit(self, records: tuple[MetadataRecord, ...]) -> None:
        """Applies the records as another broker receives them."""
        self.image = self.image.apply([decode(encode(record)) for record in records])

    @rule(owner=PRINCIPALS, requester=PRINCIPALS, renewers=st.lists(PRINCIPALS), period=PERIODS)
    def create(
        self, owner: Principal, requester: Principal, renewers: list[Principal], period: int
    ) -> None:
        new = NewToken(owner, requester, renewers, period)
        outcome = create_token(self.image, new, LIFETIMES, self.now_ms, self.rng)
        token = outcome.results[0].token
        assert token is not None
        assert token.token_id not in self.known
        self.known.append(token.token_id)
        self.commit(outcome.records)

    @rule(milliseconds=st.integers(0, 500))
    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule(data=st.data(), by=PRINCIPALS, period=PERIODS)
    def renew(self, data: st.DataObject, by: Principal, period: int) -> None:
        token_id = data.draw(st.sampled_from([*self.known, "unknown"]))
        outcome = renew_token(self.image, token_id, by, period, LIFETIMES, self.now_ms)
        token = self.image.delegation_tokens.get(token_id)
        may = token is not None and token.may_renew(by) and not token.is_expired(self.now_ms)
        self.check(outcome, may)

    @rule(data=st.data(), by=PRINCIPALS, period=PERIODS)
    def expire(self, data: st.DataObject, by: Principal, period: int) -> None:
        token_id = data.draw(st.sampled_from([*self.known, "unknown"]))
        token = self.image.delegation_tokens.get(token_id)
        outcome = expire_token(self.image, token_id, by, period, self.now_ms)
        may = token is not None and token.may_renew(by)
        may = may and (period < 0 or token is None or not token.is_expired(self.now_ms))
        self.check(outcome, may)
        if may and period < 0:
            assert token_id not in self.image.delegation_tokens

    @rule()
    def sweep(self) -> None:
        outcome = remove_expired_tokens(self.image, self.now_ms)
        self.commit(outcome.records)
        assert len(self.known) <= MAX_REMOVED_AT_ONCE  # one sweep removes all
        left = self.image.delegation_tokens.values()
        assert not any(token.is_expired(self.now_ms) for token in left)

    def check(self, outcome: ControllerResult[TokenExpiry], may: bool) -> None:
        (result,) = outcome.results
        assert (result.error.code == ErrorCode.NONE) is may
        assert bool(outcome.records) is may
        self.commit(outcome.records)

    @invariant()
    def every_token_ends_in_time_and_is_found_by_its_hmac(self) -> None:
        tokens = self.image.delegation_tokens
        for token in tokens.values():
            assert token.issue_ms <= token.expiry_ms <= token.max_ms
            assert token.max_ms <= token.issue_ms + LIFETIMES.max_lifetime_ms
        while not self.index.follow(tokens, 2):
            pass
        for token_id in self.known:
            found = self.index.find(token_hmac(SECRET_KEY, token_id))
            assert found == (token_id if token_id in tokens else None)


TestTokens = Tokens.TestCase
TestTokens.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)
