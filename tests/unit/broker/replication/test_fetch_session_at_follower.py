"""A follower's fetch session: the partitions it sends and the fetches its leader may count."""

from types import SimpleNamespace
from typing import cast

from headrace.broker.replication.fetch_session_at_follower import ReplicaFetchSession
from headrace.broker.replication.partition_fetch_state import Key
from headrace.replication.follower import Follower

TOPIC_ID = b"t" * 16


def a_follower(index: int = 0) -> Follower:
    return cast("Follower", SimpleNamespace(topic_id=TOPIC_ID, index=index))


def fetch(session: ReplicaFetchSession) -> tuple[list[Key], list[Key]]:
    """Builds a fetch as a fetcher does: its partitions and its forgotten partitions."""
    session.next_fetch()
    named = list(session.due)
    for state in session.due.values():
        state.named_in = session.number
        state.in_session = True
    session.due.clear()
    forgotten = [(each.topic_id, each.partitions[0]) for each in session.forgotten()]
    session.changes_sent()
    return named, forgotten


def keys(*indexes: int) -> list[Key]:
    return [(TOPIC_ID, index) for index in indexes]


def copying(*followers: Follower) -> ReplicaFetchSession:
    session = ReplicaFetchSession()
    session.begin()
    for follower in followers:
        session.add(follower)
    return session


def test_a_partition_is_sent_once_and_again_after_a_change() -> None:
    first, second = a_follower(0), a_follower(1)
    session = copying(first, second)
    assert fetch(session) == (keys(0, 1), [])
    assert not session.has_changes
    session.add(second)
    assert fetch(session) == (keys(1), [])


def test_a_removed_partition_is_sent_once_and_only_if_the_leader_knew_it() -> None:
    known, unknown = a_follower(0), a_follower(1)
    session = copying(known)
    fetch(session)
    session.add(unknown)
    assert session.remove(known)
    assert session.remove(unknown)
    assert session.has_changes
    assert fetch(session) == ([], keys(0))
    assert fetch(session) == ([], [])
    assert not session.is_needed


def test_a_partition_that_is_copied_again_is_not_removed() -> None:
    follower = a_follower()
    session = copying(follower)
    fetch(session)
    session.remove(follower)
    session.add(follower)
    assert fetch(session) == (keys(0), [])


def test_another_follower_replaces_the_previous_one() -> None:
    before, after = a_follower(), a_follower()
    session = copying(before)
    fetch(session)
    dropped = session.states[keys(0)[0]]
    session.add(after)
    assert dropped.removed
    assert not session.remove(before)
    session.drop(dropped)  # which comes late
    assert [each.follower for each in session.states.values()] == [after]
    assert fetch(session) == (keys(0), [])


def test_a_new_session_sends_all_partitions_and_ignores_old_responses() -> None:
    first, second = a_follower(0), a_follower(1)
    session = copying(first, second)
    fetch(session)
    session.answered(session.number, 5)
    session.remove(second)
    session.begin()
    assert (session.session_id, session.epoch) == (0, 0)
    assert session.began > session.number
    assert fetch(session) == (keys(0), [])
    assert (session.began, session.epoch) == (session.number, 1)


def test_a_removal_is_complete_when_its_fetch_is_answered() -> None:
    follower = a_follower()
    session = copying(follower)
    fetch(session)
    waiting = session.number
    assert session.remove_and_confirm(follower)
    fetch(session)
    telling = session.number
    session.answered(waiting, 5)
    assert not session.is_removal_confirmed(keys(0)[0])
    assert session.is_needed
    session.answered(telling, 5)
    assert session.is_removal_confirmed(keys(0)[0])


def test_a_removal_outlives_the_session() -> None:
    # The leader may count a fetch of the old one until it has seen the new one.
    follower = a_follower()
    session = copying(follower)
    fetch(session)
    session.remove_and_confirm(follower)
    session.begin()
    assert not session.is_removal_confirmed(keys(0)[0])
    fetch(session)
    session.answered(session.number, 6)
    assert session.is_removal_confirmed(keys(0)[0])


def test_a_partition_unknown_to_the_leader_needs_no_removal() -> None:
    follower = a_follower()
    session = copying(follower)
    session.remove_and_confirm(follower)
    assert session.is_removal_confirmed(keys(0)[0])


def test_a_new_leader_ends_the_wait_for_a_removal() -> None:
    # Its epoch is another, and that fences what comes late.
    follower = a_follower()
    session = copying(follower)
    fetch(session)
    session.remove_and_confirm(follower)
    assert not session.remove(follower)
    assert session.is_removal_confirmed(keys(0)[0])
