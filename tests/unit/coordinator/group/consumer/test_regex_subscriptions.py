"""Subscriptions by pattern: what they match, when they are matched, and what is remembered."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.consumer.regex_subscriptions import (
    MIN_REFRESH_INTERVAL_MS,
    PatternMatching,
    ResolvePatterns,
)
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import GROUP
from support.groups.consumer_groups import ConsumerDriver

DAY_MS = 86_400_000


def driver_with(*topics: str) -> ConsumerDriver:
    return ConsumerDriver(**dict.fromkeys(topics or ("logs-a", "logs-b", "other"), 2))


def beat_all(driver: ConsumerDriver) -> None:
    """One round of heartbeats, with what the broker does for them."""
    driver.settle(1)
    driver.resolve_patterns()
    driver.settle()


def test_a_pattern_stands_for_the_topics_that_match_all_of_it() -> None:
    driver = driver_with("logs-a", "my-logs-b", "logs")
    epoch = driver.enter_consumer("a", pattern="logs-.*").member_epoch
    assert driver.has("a") == {}
    driver.resolve_patterns()
    driver.beat("a", epoch)
    assert driver.has("a") == {"logs-a": {0, 1}}
    assert driver.consumers.subscribes_to("logs-a")
    assert not driver.consumers.subscribes_to("my-logs-b")


def test_names_and_a_pattern_add_up() -> None:
    driver = driver_with()
    driver.enter_consumer("a", "other", pattern="logs-.*")
    driver.resolve_patterns()
    driver.settle()
    assert set(driver.has("a")) == {"logs-a", "logs-b", "other"}


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?=lookahead)", r"(a)\1", "[z-a]"])
def test_what_re2_does_not_understand_is_refused(pattern: str) -> None:
    driver = driver_with()
    with pytest.raises(CoordinatorError) as refused:
        driver.enter_consumer("a", pattern=pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert pattern in refused.value.message
    assert GROUP not in driver.shard.groups


def test_new_topics_that_match_are_found() -> None:
    driver = driver_with()
    driver.enter_consumer("a", pattern="logs-.*")
    driver.resolve_patterns()
    driver.settle()
    driver.advance(MIN_REFRESH_INTERVAL_MS + 1)
    driver.settle()
    assert not driver.effects, "nothing has changed"
    driver.cluster.create("logs-c", 2)
    driver.topics_changed("logs-c")
    beat_all(driver)
    assert set(driver.has("a")) == {"logs-a", "logs-b", "logs-c"}


def test_patterns_are_matched_again_after_the_interval_even_if_nothing_seems_to_have_changed() -> (
    None
):
    driver = driver_with()
    driver.configure_group(consumer_regex_refresh_interval_ms=10_000)
    driver.enter_consumer("a", pattern="logs-.*")
    driver.resolve_patterns()
    driver.settle()
    epoch = driver.consumers.epoch
    driver.cluster.create("logs-c", 2)  # and nobody tells
    driver.advance(10_001)
    beat_all(driver)
    assert set(driver.has("a")) == {"logs-a", "logs-b", "logs-c"}
    assert driver.consumers.epoch == epoch + 1


def test_new_topics_are_found_though_the_coordinator_before_had_a_clock_that_was_ahead() -> None:
    driver = driver_with()
    driver.advance(DAY_MS)
    driver.enter_consumer("a", pattern="logs-.*")
    driver.resolve_patterns()
    driver.settle()
    driver.restart()
    driver.now_ms -= DAY_MS
    driver.cluster.create("logs-c", 2)
    driver.topics_changed("logs-c")
    beat_all(driver)
    assert set(driver.has("a")) == {"logs-a", "logs-b", "logs-c"}


def test_a_matching_that_finds_the_same_starts_no_rebalance() -> None:
    driver = driver_with()
    driver.enter_consumer("a", pattern="logs-.*")
    driver.resolve_patterns()
    driver.settle()
    epoch = driver.consumers.epoch
    driver.cluster.create("unrelated", 1)
    driver.topics_changed("unrelated")
    driver.advance(MIN_REFRESH_INTERVAL_MS + 1)
    beat_all(driver)
    assert driver.consumers.epoch == epoch
    version = driver.cluster.image.version
    assert driver.consumers.resolved["logs-.*"].version == version


def test_patterns_are_matched_once_at_a_time_and_not_too_often() -> None:
    driver = driver_with()
    epoch = driver.enter_consumer("a", pattern="logs-.*").member_epoch
    driver.beat("a", epoch)
    assert len(driver.effects) == 1
    driver.resolve_patterns()
    driver.enter_consumer("b", pattern="other")
    assert not driver.effects, "the last matching was just now"
    driver.advance(MIN_REFRESH_INTERVAL_MS + 1)
    beat_all(driver)
    assert set(driver.has("b")) == {"other"}


def test_a_second_member_with_the_same_pattern_is_assigned_at_once() -> None:
    driver = driver_with()
    driver.enter_consumer("a", pattern="logs-.*")
    driver.resolve_patterns()
    driver.settle()
    driver.enter_consumer("b", pattern="logs-.*")
    assert not driver.effects
    driver.settle()
    assert sum(len(numbers) for numbers in driver.has("b").values()) == 2


def test_an_unused_pattern_is_removed() -> None:
    driver = driver_with()
    driver.enter_consumer("a", pattern="logs-.*")
    driver.enter_consumer("b", "other")
    driver.resolve_patterns()
    driver.settle()
    driver.quit("a")
    assert driver.consumers.resolved == {}
    assert set(driver.consumers.topics) == {"other"}


def test_a_member_may_change_from_a_pattern_to_names() -> None:
    driver = driver_with()
    epoch = driver.enter_consumer("a", pattern="logs-.*").member_epoch
    driver.resolve_patterns()
    driver.settle()
    epoch = driver.member("a").epoch
    driver.beat("a", epoch, topics=["other"], pattern="")
    driver.settle()
    assert set(driver.has("a")) == {"other"}
    assert driver.consumers.resolved == {}


def test_the_topics_of_a_deleted_one_are_given_back() -> None:
    driver = driver_with()
    driver.enter_consumer("a", pattern="logs-.*")
    driver.resolve_patterns()
    driver.settle()
    driver.cluster.delete("logs-a")
    driver.topics_changed("logs-a")
    for _ in range(3):
        member = driver.member("a")
        driver.beat("a", member.epoch, owned={"logs-b": {0, 1}})
    assert driver.names(driver.member("a").assigned) == {"logs-b": {0, 1}}


def test_what_a_pattern_stands_for_outlives_a_restart() -> None:
    driver = driver_with()
    epoch = driver.enter_consumer("a", pattern="logs-.*").member_epoch
    driver.resolve_patterns()
    driver.settle()
    epoch = driver.member("a").epoch
    before = driver.consumers.resolved
    driver.restart()
    assert driver.consumers.resolved == before
    assert driver.beat("a", epoch).member_epoch == epoch
    assert not driver.effects


def test_a_matching_that_could_not_be_written_is_tried_again() -> None:
    driver = driver_with()
    epoch = driver.enter_consumer("a", pattern="logs-.*").member_epoch
    driver.fail_next_append = CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    driver.resolve_patterns()
    assert driver.consumers.resolved == {}
    driver.beat("a", epoch)
    driver.resolve_patterns()
    driver.settle()
    assert set(driver.has("a")) == {"logs-a", "logs-b"}


def test_a_join_that_could_not_be_written_does_not_block_the_next_one() -> None:
    driver = driver_with()
    driver.fail_next_append = CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(CoordinatorError):
        driver.enter_consumer("a", pattern="logs-.*")
    driver.enter_consumer("a", pattern="logs-.*")
    assert len(driver.effects) == 1


def test_a_result_for_a_deleted_group_is_dropped() -> None:
    driver = driver_with()
    driver.enter_consumer("a", pattern="logs-.*")
    driver.quit("a")
    for change in driver.consumers.tombstones():
        driver._append(change, None)
    driver.resolve_patterns()
    assert GROUP not in driver.shard.groups


def test_a_pattern_that_only_another_release_understands_matches_nothing() -> None:
    work = ResolvePatterns("g", frozenset({"(", "a+"}), ["a", "aa", "b"], 1)
    matching = PatternMatching(work)
    while matching.step(1):
        pass
    assert matching.found == {"(": set(), "a+": {"a", "aa"}}
