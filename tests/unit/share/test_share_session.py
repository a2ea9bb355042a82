"""Share sessions: epochs, bounds, order."""

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.share.share_session import (
    MAX_EPOCH,
    SessionKey,
    ShareFetchPlan,
    ShareSessionError,
    ShareSessions,
)

ANN, BOB = SessionKey("g", "ann"), SessionKey("g", "bob")
A, B, C = (b"t" * 16, 0), (b"t" * 16, 1), (b"u" * 16, 0)


def begin(
    sessions: ShareSessions,
    epoch: int,
    *wanted: tuple[bytes, int],
    key: SessionKey = ANN,
    forgotten: tuple[tuple[bytes, int], ...] = (),
    acknowledges: bool = False,
    limit: int = 10,
) -> ShareFetchPlan:
    return sessions.begin(
        key, epoch, list(wanted), forgotten, acknowledges=acknowledges, limit=limit
    )


def refusal(sessions: ShareSessions, epoch: int, **options: bool) -> ErrorCode:
    with pytest.raises(ShareSessionError) as refused:
        begin(sessions, epoch, **options)  # type: ignore[arg-type]
    return refused.value.code


def test_a_session_remembers_what_its_member_wants() -> None:
    sessions = ShareSessions()
    assert begin(sessions, 0, A, B).partitions == [A, B]
    assert begin(sessions, 1).partitions == [A, B]
    assert begin(sessions, 2, C, forgotten=(A,)).partitions == [B, C]
    assert begin(sessions, 3, B).partitions == [B, C]


def test_a_partition_that_was_served_comes_last() -> None:
    sessions = ShareSessions()
    plan = begin(sessions, 0, A, B, C)
    assert plan.session is not None
    plan.session.move_to_end(A)
    plan.session.move_to_end((b"x" * 16, 9))
    assert begin(sessions, 1).partitions == [B, C, A]


def test_epochs_must_follow_each_other() -> None:
    sessions = ShareSessions()
    assert refusal(sessions, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert refusal(sessions, -1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert refusal(sessions, 0, acknowledges=True) is ErrorCode.INVALID_REQUEST
    begin(sessions, 0, A)
    assert refusal(sessions, 2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    begin(sessions, 1)
    assert refusal(sessions, 1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_an_acknowledgement_advances_the_session_epoch() -> None:
    sessions = ShareSessions()
    for epoch, code in (
        (0, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (1, ErrorCode.SHARE_SESSION_NOT_FOUND),
        (-1, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ):
        with pytest.raises(ShareSessionError) as refused:
            sessions.acknowledge(ANN, epoch)
        assert refused.value.code is code
    begin(sessions, 0, A)
    sessions.acknowledge(ANN, 1)
    sessions.acknowledge(ANN, -1)
    assert begin(sessions, 2).partitions == [A]


def test_the_epoch_after_the_last_is_the_first() -> None:
    sessions = ShareSessions()
    session = begin(sessions, 0, A).session
    assert session is not None
    session.epoch = MAX_EPOCH
    begin(sessions, MAX_EPOCH)
    assert session.epoch == 1


def test_the_last_request_of_a_session_reads_nothing() -> None:
    sessions = ShareSessions()
    begin(sessions, 0, A)
    assert begin(sessions, -1) == ShareFetchPlan([])
    assert sessions.close(ANN) is not None
    assert sessions.close(ANN) is None


def test_the_number_of_sessions_is_bounded_and_a_member_has_one() -> None:
    sessions = ShareSessions()
    begin(sessions, 0, A, limit=1)
    begin(sessions, 0, B, limit=1)
    assert len(sessions) == 1
    with pytest.raises(ShareSessionError) as refused:
        begin(sessions, 0, A, key=BOB, limit=1)
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_group_is_known_while_a_member_has_a_session() -> None:
    sessions = ShareSessions()
    begin(sessions, 0, A)
    begin(sessions, 0, A, key=BOB)
    sessions.close(ANN)
    assert sessions.has_group("g")
    sessions.close(BOB)
    assert not sessions.has_group("g")


def test_the_order_of_partitions_rotates_with_the_epoch() -> None:
    plan = ShareFetchPlan([A, B, C])
    assert plan.rotated(0) == [A, B, C]
    assert plan.rotated(4) == [B, C, A]
    assert plan.rotated(-1) == [A, B, C]
    assert ShareFetchPlan([]).rotated(5) == []
