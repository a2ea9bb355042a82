"""Members come to their targets: nobody gets what another one still has."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.consumer.member import MemberState
from headrace.protocol.errors import ErrorCode
from support.groups.consumer_groups import REBALANCE_MS, ConsumerDriver


def two_members(**topics: int) -> tuple[ConsumerDriver, int, int]:
    """`a` had everything; `b` has just joined. Their epochs."""
    driver = ConsumerDriver(**(topics or {"t1": 4}))
    first = driver.enter_consumer("a").member_epoch
    second = driver.enter_consumer("b").member_epoch
    return driver, first, second


def test_a_new_member_waits_until_the_old_one_has_given_back() -> None:
    driver, old, new = two_members()
    assert driver.has("b") == {}
    assert driver.member("b").state is MemberState.UNRELEASED_PARTITIONS
    assert driver.consumers.state_name(0) == "Reconciling"
    # `a` is told what it may keep, in its old epoch.
    answer = driver.beat("a", old)
    assert answer.member_epoch == old
    kept = driver.told(answer)
    assert kept is not None
    assert len(kept["t1"]) == 2
    assert driver.told(driver.beat("b", new)) is None
    # Once it owns no more than that, it is in the new epoch, and `b` gets the rest.
    answer = driver.beat("a", old, owned=kept)
    assert answer.member_epoch == new
    assert driver.told(driver.beat("b", new)) == {"t1": {0, 1, 2, 3} - kept["t1"]}
    assert driver.consumers.state_name(0) == "Stable"


def test_a_member_that_does_not_say_what_it_owns_still_owns_it() -> None:
    driver, old, new = two_members()
    driver.beat("a", old)
    assert driver.beat("a", old).member_epoch == old
    assert driver.told(driver.beat("b", new)) is None


def test_a_member_that_still_owns_what_it_must_give_back_waits() -> None:
    driver, old, new = two_members()
    driver.beat("a", old)
    answer = driver.beat("a", old, owned={"t1": {0, 1, 2, 3}})
    assert answer.member_epoch == old
    assert driver.told(driver.beat("b", new)) is None


def test_a_member_that_owned_less_than_it_had_to_give_back_moves_on_at_once() -> None:
    driver, old, new = two_members()
    answer = driver.beat("a", old, owned={})
    assert answer.member_epoch == new
    assert driver.member("a").state is MemberState.STABLE


def test_a_member_that_missed_its_new_epoch_may_repeat_its_heartbeat() -> None:
    driver, old, new = two_members()
    kept = driver.told(driver.beat("a", old))
    assert kept is not None
    assert driver.beat("a", old, owned=kept).member_epoch == new
    again = driver.beat("a", old, owned=kept, topics=["t1"], rebalance_ms=REBALANCE_MS)
    assert again.member_epoch == new
    assert driver.told(again) == kept


@pytest.mark.parametrize("owned", [None, {"t1": {0, 1, 2, 3}}])
def test_in_its_last_epoch_a_member_may_not_own_more_than_it_has(
    owned: dict[str, set[int]] | None,
) -> None:
    driver, old, _ = two_members()
    kept = driver.told(driver.beat("a", old))
    driver.beat("a", old, owned=kept)
    with pytest.raises(CoordinatorError) as refused:
        driver.beat("a", old, owned=owned)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert "smaller member epoch" in refused.value.message


def test_an_epoch_from_the_future_is_fenced() -> None:
    driver, _, new = two_members()
    with pytest.raises(CoordinatorError) as refused:
        driver.beat("b", new + 1)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert "greater member epoch" in refused.value.message


def test_a_fenced_member_joins_again() -> None:
    driver, _, new = two_members()
    driver.settle()
    before = driver.has("b")
    answer = driver.enter_consumer("b")
    assert answer.member_epoch == new
    assert driver.told(answer) == before


def test_topics_that_are_no_longer_asked_for_are_given_back_before_there_is_a_target() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a", "t1", "t2").member_epoch
    driver.configure_group(consumer_assignment_interval_ms=1_000)
    answer = driver.beat("a", epoch, topics=["t1"])
    assert driver.told(answer) == {"t1": {0, 1, 2}}
    assert driver.member("a").state is MemberState.UNREVOKED_PARTITIONS
    answer = driver.beat("a", epoch, owned={"t1": {0, 1, 2}})
    assert driver.member("a").revoking == {}
    driver.advance(1_000)
    driver.beat("a", answer.member_epoch, owned={"t1": {0, 1, 2}})
    assert driver.consumers.state_name(0) == "Stable"


def test_a_member_has_its_rebalance_timeout_to_release_partitions() -> None:
    driver, old, new = two_members()
    driver.beat("a", old)
    for _ in range(3):
        # It lives, but it does not give back.
        driver.advance(REBALANCE_MS // 3)
        if "a" in driver.consumers.members:
            driver.beat("a", old)
        driver.beat("b", driver.member("b").epoch)
    assert list(driver.consumers.members) == ["b"]
    driver.settle()
    assert driver.has("b") == {"t1": {0, 1, 2, 3}}
    assert new < driver.member("b").epoch


def test_a_member_that_has_given_back_need_not_hurry() -> None:
    driver, old, new = two_members()
    kept = driver.told(driver.beat("a", old))
    driver.beat("a", old, owned=kept)
    for _ in range(4):
        driver.advance(REBALANCE_MS // 3)
        driver.beat("a", new)
        driver.beat("b", new)
    assert set(driver.consumers.members) == {"a", "b"}


def test_unknown_states_of_a_newer_release_make_the_member_start_afresh() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a").member_epoch
    key, value = next(
        (key, value) for key, value, _ in reversed(driver.log) if key[:2] == b"\x00\x08"
    )
    assert isinstance(key, bytes)
    assert value is not None
    # The state is the byte after the version and the two epochs.
    driver.log.append((key, value[:10] + b"\x63" + value[11:], None))
    driver.restart()
    assert driver.member("a").state is MemberState.UNKNOWN
    with pytest.raises(CoordinatorError) as refused:
        driver.beat("a", epoch)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.told(driver.enter_consumer("a")) == {"t1": {0, 1, 2}}
