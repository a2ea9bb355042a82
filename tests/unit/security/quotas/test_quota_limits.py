"""The first quota that exists applies, in Kafka's order of precedence."""

import pytest

from headrace.security.quotas.client_quota import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    USER,
    QuotaEntity,
)
from headrace.security.quotas.quota_limits import (
    LARGEST_BOUND,
    LONGEST_SCOPE_NAME,
    SMALLEST_BOUND,
    AddressLimits,
    Limit,
    QuotaLimits,
)

ALICE, APP = (USER, "alice"), (CLIENT_ID, "app")
ANY_USER, ANY_CLIENT = (USER, None), (CLIENT_ID, None)
PAIR, OF_USER, OF_CLIENT = ("alice", "app"), ("alice", None), (None, "app")

# Each level: its entity, and whose use counts together.
LEVELS = (
    ((APP, ALICE), PAIR),
    ((ANY_CLIENT, ALICE), PAIR),
    ((ALICE,), OF_USER),
    ((APP, ANY_USER), PAIR),
    ((ANY_CLIENT, ANY_USER), PAIR),
    ((ANY_USER,), OF_USER),
    ((APP,), OF_CLIENT),
    ((ANY_CLIENT,), OF_CLIENT),
)


def limits_of(levels: range) -> QuotaLimits:
    """A quota of each level, whose limit is the number of the level."""
    return QuotaLimits(
        {QuotaEntity(LEVELS[each][0]): {PRODUCER_BYTE_RATE: float(each + 1)} for each in levels},
        PRODUCER_BYTE_RATE,
    )


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_first_level_that_has_a_quota_applies_and_no_other(first: int) -> None:
    limits = limits_of(range(first, len(LEVELS)))
    assert limits.find("alice", "app") == Limit(float(first + 1), LEVELS[first][1])


@pytest.mark.parametrize(
    ("user", "client_id", "bound", "scope"),
    [
        ("alice", "other", 2.0, ("alice", "other")),
        ("bob", "app", 4.0, ("bob", "app")),
        ("bob", "other", 5.0, ("bob", "other")),
        ("alice", "", 2.0, ("alice", "")),  # without a client id: the default client's quota
    ],
)
def test_a_name_without_an_own_quota_has_the_default(
    user: str, client_id: str, bound: float, scope: tuple[str, str]
) -> None:
    assert limits_of(range(len(LEVELS))).find(user, client_id) == Limit(bound, scope)


def test_another_user_or_client_id_has_no_limit() -> None:
    limits = QuotaLimits({QuotaEntity((APP, ALICE)): {PRODUCER_BYTE_RATE: 1.0}}, PRODUCER_BYTE_RATE)
    assert limits
    assert limits.find("alice", "app") is not None
    assert limits.find("alice", "other") is limits.find("bob", "app") is None


def test_a_quota_of_another_key_does_not_apply() -> None:
    limits = QuotaLimits({QuotaEntity((ALICE,)): {"consumer_byte_rate": 1.0}}, PRODUCER_BYTE_RATE)
    assert not limits
    assert limits.find("alice", "app") is None


def test_a_limit_of_zero_from_an_older_store_is_the_smallest_limit() -> None:
    for stored in (0.0, -1.0, float("nan")):
        entity = QuotaEntity((ALICE,))
        limits = QuotaLimits({entity: {PRODUCER_BYTE_RATE: stored}}, PRODUCER_BYTE_RATE)
        assert limits.find("alice", "") == Limit(SMALLEST_BOUND, OF_USER)


def test_the_scope_of_a_huge_client_id_is_short() -> None:
    limits = QuotaLimits(
        {QuotaEntity((ANY_CLIENT,)): {PRODUCER_BYTE_RATE: 1.0}}, PRODUCER_BYTE_RATE
    )
    found = limits.find("alice", "c" * 30_000)
    assert found is not None
    assert found.scope == (None, "c" * LONGEST_SCOPE_NAME)


def test_an_address_has_its_own_limit_or_the_default() -> None:
    own, default = QuotaEntity(((IP, "::ffff:10.0.0.1"),)), QuotaEntity(((IP, None),))
    limits = AddressLimits(
        {own: {CONNECTION_CREATION_RATE: 3.0}, default: {CONNECTION_CREATION_RATE: 7.0}}
    )
    assert (limits.find("10.0.0.1"), limits.find("10.0.0.2")) == (3.0, 7.0)
    assert AddressLimits({own: {CONNECTION_CREATION_RATE: 3.0}}).find("10.0.0.2") is None
    assert not AddressLimits({QuotaEntity((ALICE,)): {PRODUCER_BYTE_RATE: 1.0}})


def test_an_infinite_limit_is_a_finite_one() -> None:
    """ZooKeeper may hold it. Infinity is no number of bytes."""
    limits = QuotaLimits(
        {QuotaEntity((ALICE,)): {PRODUCER_BYTE_RATE: float("inf")}}, PRODUCER_BYTE_RATE
    )
    assert limits.find("alice", "app") == Limit(LARGEST_BOUND, OF_USER)
