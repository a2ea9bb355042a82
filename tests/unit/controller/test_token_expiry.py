"""The removal of expired delegation tokens."""

from random import Random

import pytest

from headrace.cluster.image import MetadataImage
from headrace.controller import token_expiry
from headrace.controller.token_changes import NewToken, TokenLifetimes, create_token
from headrace.controller.token_expiry import remove_expired_tokens
from headrace.security.principal import user

NOW_MS = 10_000
LIFETIMES = TokenLifetimes(max_lifetime_ms=1_000, expiry_time_ms=100)


def test_expired_tokens_are_removed_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    image = MetadataImage()
    monkeypatch.setattr(token_expiry, "MAX_REMOVED_AT_ONCE", 2)
    rng = Random(1)
    for lifetime_ms in (10, 20, 30, 1_000):
        new = NewToken(user("owner"), user("owner"), (), lifetime_ms)
        outcome = create_token(image, new, LIFETIMES, NOW_MS, rng)
        image = image.apply(outcome.records)
    sizes = []
    while (removed := remove_expired_tokens(image, NOW_MS + 50)).results:
        sizes.append(len(removed.results))
        image = image.apply(removed.records)
    assert sizes == [2, 1]
    assert [each.max_ms for each in image.delegation_tokens.values()] == [NOW_MS + 1_000]
