"""What `cluster up` says of a broker, and which changes are worth a line."""

import pytest

from headrace.cli.cluster.cluster_state import (
    DEAD,
    ELSEWHERE,
    FENCED,
    STARTING,
    STOPPED,
    UP,
    BrokerView,
    ClusterView,
    changes,
    state_of,
)
from headrace.cli.cluster.local_broker import how_it_ended
from headrace.cli.cluster.status import Overview
from headrace.client.admin.brokers import BrokerInfo, ClusterInfo
from headrace.client.metadata import PartitionInfo, TopicInfo


def overview(isr: tuple[int, ...] = (1, 2), controller: int = 1, leader: int = 1) -> Overview:
    brokers = tuple(BrokerInfo(each, "h", 9091 + each) for each in (1, 2))
    partition = PartitionInfo(leader, 0, (1, 2), isr)
    topic = TopicInfo("t", b"\1" * 16, False, {0: partition})
    return Overview(ClusterInfo("c", controller, brokers), (topic,))


def view(*states: str, seen: Overview | None = None) -> ClusterView:
    brokers = [
        BrokerView(number, f"h:{number}", 100 + number if state == UP else None, state)
        for number, state in enumerate(states, start=1)
    ]
    return ClusterView(tuple(brokers), seen)


def kinds(before: ClusterView | None, now: ClusterView) -> list[object]:
    return [event["event"] for event in changes(before, now)]


def test_a_broker_that_joined_later_is_listed_and_does_not_delay_the_cluster() -> None:
    own = view(UP, seen=overview())
    joined = BrokerView(4, "h:9095", None, FENCED, is_child=False)
    (event,) = changes(own, own._replace(brokers=(*own.brokers, joined)))
    assert (event["broker"], event["state"], event["address"]) == (4, FENCED, "h:9095")
    assert own._replace(brokers=(*own.brokers, joined)).is_up


@pytest.mark.parametrize(
    ("runs", "code", "live", "known", "state"),
    [
        (False, None, False, False, STARTING),
        (True, None, False, False, STARTING),
        (True, None, True, True, UP),
        (True, None, False, True, FENCED),
        (False, 0, False, True, STOPPED),
        (False, -9, False, True, DEAD),
        (False, 1, False, False, DEAD),
        (False, 0, True, True, ELSEWHERE),
    ],
)
def test_a_process_and_its_place_in_the_cluster_make_one_state(
    runs: bool, code: int | None, live: bool, known: bool, state: str
) -> None:
    assert state_of(runs=runs, exit_code=code, live=live, known=known) == state


def test_nothing_new_is_no_line() -> None:
    now = view(UP, UP, seen=overview())
    assert kinds(now, now) == []


def test_a_cluster_that_comes_up_says_so_once() -> None:
    begun = view(STARTING, STARTING)
    now = view(UP, UP, seen=overview())
    assert kinds(None, begun) == ["broker", "broker"]
    assert kinds(begun, now) == ["broker", "broker", "controller", "partitions", "up"]


def test_a_death_comes_with_how_and_the_end_of_the_log() -> None:
    before = view(UP, UP, seen=overview())
    dead = before.brokers[1]._replace(
        state=DEAD, pid=None, ended="killed by SIGKILL", log="/l", last_lines=("boom",)
    )
    now = ClusterView((before.brokers[0], dead), overview(isr=(1,)))
    first, second = changes(before, now)
    assert first == {
        "event": "broker",
        "broker": 2,
        "state": DEAD,
        "ended": "killed by SIGKILL",
        "log": "/l",
        "lines": ["boom"],
    }
    assert second == {
        "event": "partitions", "partitions": 1, "under_replicated": 1, "without_leader": 0,
    }  # fmt: skip


def test_numbers_follow_from_brokers_and_partitions() -> None:
    seen = overview(isr=(2,), leader=2)
    assert list(seen.under_replicated) == list(seen.not_preferred) == [("t", 0)]
    assert seen.loads[1].out_of_sync == seen.loads[1].preferred == 1
    assert seen.loads[2].leads == seen.loads[2].replicas == 1
    assert overview(leader=-1).without_leader
    assert overview(controller=-1).controller is None


def test_an_exit_code_is_described_in_words() -> None:
    assert how_it_ended(-9) == "killed by SIGKILL"
    assert how_it_ended(0) == "stopped"
    assert how_it_ended(3) == "ended with exit code 3"
