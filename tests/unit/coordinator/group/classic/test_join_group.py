"""JoinGroup of classic groups: who gets in, under which id, and when the others are told."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ClassicDriver,
    subscription,
)

MINUTE_MS = 60_000
FORMED_MS = 6_000  # two initial delays of Kafka's default: members came during the first


def test_a_new_member_first_gets_an_id_and_then_waits_with_it() -> None:
    driver = ClassicDriver()
    answer = driver.join().value
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("app-")
    assert driver.group.pending_joins == {answer.member_id}
    waiting = driver.join(answer.member_id)
    assert not waiting.done
    assert driver.group.pending_joins == set()
    driver.advance(0)
    assert waiting.value.error_code == ErrorCode.NONE
    assert waiting.value.generation_id == 1
    assert waiting.value.leader == waiting.value.member_id == answer.member_id
    assert [one.member_id for one in waiting.value.members] == [answer.member_id]


@pytest.mark.parametrize("version", [0, 3])
def test_an_old_client_joins_at_once(version: int) -> None:
    driver = ClassicDriver()
    waiting = driver.join(version=version)
    assert not waiting.done
    driver.advance(0)
    assert waiting.value.member_id in driver.group.members


def test_without_a_rebalance_timeout_of_its_own_the_session_counts() -> None:
    driver = ClassicDriver()
    driver.join(version=0, session_ms=7_000, rebalance_ms=-1)
    assert driver.group.rebalance_timeout_ms == 7_000


def test_an_id_that_is_never_used_is_forgotten_after_a_session() -> None:
    driver = ClassicDriver()
    member_id = driver.new_id()
    driver.advance(SESSION_MS - 1)
    assert driver.group.pending_joins == {member_id}
    driver.advance(1)
    assert driver.group.pending_joins == set()
    assert driver.join(member_id).value.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_phase_waits_for_an_unused_member_id() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1)
    pending = driver.new_id()
    rejoined = driver.join(leader)
    assert not rejoined.done
    joined = driver.join(pending)
    assert rejoined.value.generation_id == joined.value.generation_id == 2


def test_a_join_phase_continues_when_an_unused_member_id_expires() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1)
    driver.new_id()
    rejoined = driver.join(leader)
    driver.advance(SESSION_MS)
    assert rejoined.value.generation_id == 2


def test_an_id_of_an_unknown_group_or_member_is_refused() -> None:
    driver = ClassicDriver()
    assert driver.join("who").value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert GROUP not in driver.shard.groups
    driver.form(1)
    refused = driver.join("who").value
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.member_id == "who"


def test_a_group_without_a_name_is_refused() -> None:
    with pytest.raises(CoordinatorError) as refused:
        ClassicDriver().join(group_id="").value  # noqa: B018
    assert refused.value.code is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_outside_the_bounds_is_refused(session_ms: int) -> None:
    driver = ClassicDriver()
    answer = driver.join(session_ms=session_ms).value
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert GROUP not in driver.shard.groups


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", {"range": b""}), ("consumer", {})])
def test_a_first_member_must_have_a_type_and_a_protocol(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    driver = ClassicDriver()
    answer = driver.join(protocol_type=protocol_type, protocols=protocols).value
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert GROUP not in driver.shard.groups
    assert driver.log == []


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", {"range": b""}), ("consumer", {"sticky": b""}), ("consumer", {})],
)
def test_a_member_without_a_common_protocol_is_refused(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    driver = ClassicDriver()
    driver.form(1)
    answer = driver.join(protocol_type=protocol_type, protocols=protocols).value
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.group.state is ClassicState.STABLE


def test_the_protocol_that_most_members_like_best_is_chosen_of_those_that_all_know() -> None:
    driver = ClassicDriver(GroupConfig())
    likes = [
        ("newest", "sticky", "range"),
        ("newest", "sticky", "range"),
        ("range", "sticky"),
        ("sticky", "range"),
    ]
    entered = [driver.enter(protocols={name: name.encode() for name in names}) for names in likes]
    driver.advance(FORMED_MS)
    answers = [waiting.value for _, waiting in entered]
    assert {answer.protocol_name for answer in answers} == {"sticky"}
    assert {one.metadata for answer in answers for one in answer.members} == {b"sticky"}


def test_only_the_leader_gets_the_list_of_members() -> None:
    driver = ClassicDriver(GroupConfig())
    entered = [driver.enter() for _ in range(3)]
    driver.advance(FORMED_MS)
    answers = [waiting.value for _, waiting in entered]
    leaders = {answer.leader for answer in answers}
    assert len(leaders) == 1
    for answer in answers:
        expected = 3 if answer.member_id in leaders else 0
        assert len(answer.members) == expected
        assert answer.protocol_type == "consumer"


def test_a_new_group_waits_for_more_members_before_its_first_generation() -> None:
    driver = ClassicDriver(GroupConfig(classic_initial_rebalance_delay_ms=3_000))
    _, first = driver.enter()
    driver.advance(2_000)
    _, second = driver.enter()
    driver.advance(1_000)
    assert not first.done  # somebody came: the delay begins again
    driver.advance(3_000)
    assert first.value.generation_id == second.value.generation_id == 1


def test_members_that_keep_coming_delay_a_new_group_for_a_rebalance_timeout_at_most() -> None:
    driver = ClassicDriver(GroupConfig(classic_initial_rebalance_delay_ms=3_000))
    _, first = driver.enter(rebalance_ms=10_000)
    for _ in range(9):
        driver.advance(1_000)
        driver.enter(rebalance_ms=10_000)
    assert not first.done
    driver.advance(1_000)
    assert first.value.generation_id == 1


def test_a_known_group_does_not_delay() -> None:
    driver = ClassicDriver(GroupConfig(classic_initial_rebalance_delay_ms=3_000))
    (leader,) = driver.form(1)
    _, second = driver.enter()
    first = driver.join(leader)
    assert first.done
    assert second.done


def test_an_unused_member_id_that_expires_does_not_cut_the_initial_delay_short() -> None:
    driver = ClassicDriver(GroupConfig(classic_initial_rebalance_delay_ms=9_000))
    driver.new_id(session_ms=6_000)
    _, first = driver.enter()
    driver.advance(8_000)
    assert not driver.group.pending_joins
    assert not first.done
    driver.advance(1_000)
    assert first.value.generation_id == 1


def test_a_new_member_starts_a_rebalance_that_the_others_learn_of_by_heartbeat() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    assert driver.heartbeat(leader, 1) is ErrorCode.NONE
    _, new = driver.enter()
    assert driver.group.state is ClassicState.PREPARING_REBALANCE
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = driver.join(leader)
    assert not rejoined.done
    assert driver.join(other).value.generation_id == 2
    assert rejoined.value.generation_id == new.value.generation_id == 2


def test_dynamic_members_that_do_not_rejoin_within_the_rebalance_timeout_are_removed() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    _, new = driver.enter()
    rejoined = driver.join(leader)
    for _ in range(REBALANCE_MS * 2 // SESSION_MS):
        assert not new.done
        driver.heartbeat(other, 1)  # alive, but it does not join
        driver.advance(SESSION_MS // 2)
    assert rejoined.value.generation_id == 2
    assert other not in driver.group.members
    assert driver.join(other).value.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_rejoin_is_replaced() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    _, _new = driver.enter()
    rejoined = driver.join(other)
    driver.advance(SESSION_MS)
    assert leader not in driver.group.members
    assert rejoined.value.leader in driver.group.members
    assert driver.group.generation == 2


def test_a_member_that_missed_the_answer_gets_it_again() -> None:
    driver = ClassicDriver(GroupConfig())
    entered = dict(driver.enter() for _ in range(2))
    driver.advance(FORMED_MS)
    assert driver.group.state is ClassicState.COMPLETING_REBALANCE
    for member_id, waiting in entered.items():
        assert driver.join(member_id).value == waiting.value
    assert driver.group.generation == 1


def test_a_follower_that_rejoins_a_stable_group_unchanged_gets_the_current_generation() -> None:
    driver = ClassicDriver()
    _, follower = driver.form(2)
    answer = driver.join(follower).value
    assert answer.generation_id == 1
    assert answer.members == []
    assert driver.group.state is ClassicState.STABLE


@pytest.mark.parametrize("who", [0, 1])
def test_a_leader_that_joins_again_or_a_member_with_news_starts_a_rebalance(who: int) -> None:
    driver = ClassicDriver()
    member = driver.form(2)[who]
    protocols = {"range": subscription("t") if who == 0 else subscription("t", "u")}
    assert not driver.join(member, protocols=protocols).done
    assert driver.group.state is ClassicState.PREPARING_REBALANCE


def test_news_of_a_member_in_the_sync_phase_start_over() -> None:
    driver = ClassicDriver(GroupConfig())
    entered = [driver.enter()[0] for _ in range(2)]
    driver.advance(FORMED_MS)
    leader = driver.group.leader
    follower = next(one for one in entered if one != leader)
    waiting = driver.sync(follower, 1)
    driver.join(follower, protocols={"range": subscription("u")})
    assert waiting.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group.state is ClassicState.PREPARING_REBALANCE


def test_a_repeated_join_replaces_the_first() -> None:
    driver = ClassicDriver()
    leader, _ = driver.form(2)
    first = driver.join(leader)
    second = driver.join(leader)
    assert first.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.done
    assert driver.group.joining == 1


def test_a_full_group_accepts_no_new_member() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    driver.configure(classic_max_size=2)
    refused = driver.join().value
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.member_id == ""
    # Those who are in stay in.
    driver.join(leader)
    assert driver.join(other).value.generation_id == 2


def test_a_lowered_limit_refuses_the_last_members_to_rejoin() -> None:
    driver = ClassicDriver()
    members = driver.form(3)
    driver.configure(classic_max_size=2)
    driver.restart()
    assert driver.group.state is ClassicState.PREPARING_REBALANCE
    waiting = [driver.join(one) for one in members]
    assert waiting[2].value.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.advance(REBALANCE_MS)
    assert [one.value.generation_id for one in waiting[:2]] == [2, 2]


def test_a_new_member_waits_for_five_minutes_at_most() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1, rebalance_ms=60 * MINUTE_MS)
    _, new = driver.enter(rebalance_ms=60 * MINUTE_MS)
    for _ in range(5 * MINUTE_MS * 2 // SESSION_MS):
        assert not new.done
        assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        driver.advance(SESSION_MS // 2)
    assert new.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_same_name_twice_is_one_protocol() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1)
    group = driver.group
    member = group.members[leader]
    group.update(member, member.protocols * 2)
    assert group.select_protocol() == "range"
