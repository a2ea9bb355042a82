"""Sessions end when they are idle, old, or too many."""

from itertools import count
from typing import cast

import pytest

from headrace.console.cluster.connection import ClusterConnection
from headrace.console.web.errors import LoginRequired
from headrace.console.web.sessions import MAX_SESSIONS, SessionStore


class Connection:
    is_shared = False


def store() -> SessionStore:
    numbers = count()
    return SessionStore(
        idle_timeout_s=10, session_timeout_s=100, new_id=lambda: f"id-{next(numbers)}"
    )


def connection() -> ClusterConnection:
    return cast("ClusterConnection", Connection())


def test_an_idle_session_ends_and_automatic_refreshes_do_not_prolong_it() -> None:
    sessions = store()
    session = sessions.open(connection(), "alice", 0)
    assert sessions.find(session.id, 9) is session
    assert sessions.find(session.id, 15, is_use=False) is session
    assert sessions.find(session.id, 20) is None
    assert sessions.take_expired(20) == [session]


def test_a_session_that_is_used_ends_at_its_greatest_age() -> None:
    sessions = store()
    session = sessions.open(connection(), "alice", 0)
    for now_s in range(0, 101, 5):
        assert sessions.find(session.id, now_s) is session
    assert sessions.find(session.id, 101) is None


def test_sessions_without_a_login_make_room_first() -> None:
    sessions = store()
    logged_in = [sessions.open(connection(), "alice", 0) for _ in range(MAX_SESSIONS)]
    for _ in range(5 * MAX_SESSIONS):
        sessions.open(None, None, 1)
    sessions.take_expired(1)
    assert all(sessions.find(each.id, 1) for each in logged_in)
    assert len(sessions) <= MAX_SESSIONS


def test_a_session_before_the_login_has_no_cluster() -> None:
    with pytest.raises(LoginRequired):
        _ = store().open(None, None, 0).cluster


def test_messages_are_shown_once_and_bounded() -> None:
    session = store().open(None, None, 0)
    for number in range(50):
        session.add_flash("ok", str(number))
    assert [flash.text for flash in session.take_flashes()] == [str(n) for n in range(40, 50)]
    assert session.take_flashes() == []


def test_ids_and_tokens_are_not_in_the_representation() -> None:
    session = store().open(None, None, 0)
    assert session.id not in repr(session)
    assert session.csrf_token not in repr(session)
