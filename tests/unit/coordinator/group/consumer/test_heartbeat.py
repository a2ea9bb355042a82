"""Members join: what they get, and what is refused."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from support.groups.consumer_groups import REBALANCE_MS, ConsumerDriver

DAY_MS = 86_400_000
NO_SUBSCRIPTION = (
    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
)


def refusal(driver: ConsumerDriver, *args: object, **options: object) -> CoordinatorError:
    with pytest.raises(CoordinatorError) as refused:
        driver.beat(*args, **options)  # type: ignore[arg-type]
    return refused.value


def test_the_first_member_gets_everything_it_asks_for_at_once() -> None:
    driver = ConsumerDriver()
    answer = driver.enter_consumer("a", "t1", "t2")
    assert driver.told(answer) == {"t1": {0, 1, 2}, "t2": {0, 1, 2}}
    assert answer.member_id == "a"
    assert answer.member_epoch == driver.consumers.epoch == 2
    assert answer.heartbeat_interval_ms == 5_000
    assert driver.consumers.state_name(0) == "Stable"


def test_a_topic_that_does_not_exist_is_waited_for() -> None:
    driver = ConsumerDriver()
    answer = driver.enter_consumer("a", "later")
    assert driver.told(answer) == {}
    driver.cluster.create("later", 2)
    driver.topics_changed("later")
    answer = driver.beat("a", answer.member_epoch)
    assert driver.told(answer) == {"later": {0, 1}}


def test_version_0_hands_out_member_ids() -> None:
    driver = ConsumerDriver()
    answer = driver.enter_consumer("", "t1", version=0)
    assert answer.member_id
    assert list(driver.consumers.members) == [answer.member_id]


def test_the_assignment_is_sent_once() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a").member_epoch
    answer = driver.beat("a", epoch)
    assert driver.told(answer) is None
    assert answer.member_epoch == epoch


def test_a_complete_heartbeat_gets_a_complete_response() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a").member_epoch
    answer = driver.beat("a", epoch, topics=["t1"], owned={}, rebalance_ms=REBALANCE_MS)
    assert driver.told(answer) == {"t1": {0, 1, 2}}


def test_steady_heartbeats_write_nothing() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a").member_epoch
    written = len(driver.log)
    driver.beat("a", epoch)
    driver.beat("a", epoch, owned={"t1": {0, 1, 2}})
    assert len(driver.log) == written


def test_a_heartbeat_from_another_client_is_remembered() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a").member_epoch
    driver.beat("a", epoch, client_id="renamed")
    assert driver.member("a").client_id == "renamed"


def test_a_member_may_join_again_and_keeps_what_it_had() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    answer = driver.enter_consumer("a")
    assert driver.told(answer) == {"t1": {0, 1, 2}}
    assert list(driver.consumers.members) == ["a"]


def test_a_full_group_accepts_no_more_members() -> None:
    driver = ConsumerDriver(GroupConfig(consumer_max_size=1))
    epoch = driver.enter_consumer("a").member_epoch
    refused = refusal(driver, "b", 0, topics=["t1"], owned={}, rebalance_ms=1)
    assert refused.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.beat("a", epoch).member_epoch == epoch


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rebalance_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": {"t1": {0}}}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"topics": None},
            NO_SUBSCRIPTION,
        ),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_an_invalid_heartbeat_is_refused_with_kafkas_words(
    options: dict[str, object], message: str
) -> None:
    driver = ConsumerDriver()
    request: dict[str, object] = {
        "member_id": "a",
        "epoch": 0,
        "topics": ["t1"],
        "owned": {},
        "rebalance_ms": 1,
    }
    refused = refusal(driver, **(request | options))
    assert refused.code is ErrorCode.INVALID_REQUEST
    assert refused.message == message


def test_an_unknown_assignor_is_refused() -> None:
    driver = ConsumerDriver()
    refused = refusal(
        driver, "a", 0, topics=["t1"], owned={}, rebalance_ms=1, assignor="cooperative"
    )
    assert refused.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in refused.message


def test_the_assignor_that_most_members_ask_for_decides() -> None:
    driver = ConsumerDriver(t1=2, t2=2)
    driver.enter_consumer("a", "t1", "t2", assignor="range")
    driver.enter_consumer("b", "t1", "t2", assignor="range")
    driver.enter_consumer("c", "t1", "t2", assignor="uniform")
    driver.settle()
    assert driver.has("a") == {"t1": {0}, "t2": {0}}
    assert driver.has("b") == {"t1": {1}, "t2": {1}}
    assert driver.has("c") == {}


@pytest.mark.parametrize("epoch", [1, -1])
def test_a_group_that_does_not_exist_has_no_members(epoch: int) -> None:
    refused = refusal(ConsumerDriver(), "a", epoch)
    assert refused.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_unknown_member_is_refused() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    assert refusal(driver, "b", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(driver, "b", -1).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_targets_are_not_computed_more_often_than_the_interval_says() -> None:
    driver = ConsumerDriver(GroupConfig(consumer_assignment_interval_ms=1_000))
    driver.enter_consumer("a")
    answer = driver.enter_consumer("b")
    assert driver.told(answer) == {}
    assert driver.consumers.state_name(0) == "Assigning"
    driver.advance(1_000)
    driver.settle()
    assert len(driver.has("b")["t1"]) == 1
    assert driver.consumers.state_name(0) == "Stable"


def test_members_are_assigned_though_the_coordinator_before_had_a_clock_that_was_ahead() -> None:
    """The time of the last assignment is in the group's records."""
    driver = ConsumerDriver(GroupConfig(consumer_assignment_interval_ms=1_000))
    driver.advance(DAY_MS)
    driver.enter_consumer("a")
    driver.restart()
    driver.now_ms -= DAY_MS
    driver.enter_consumer("b")
    driver.settle()
    assert len(driver.has("b")["t1"]) == 1
