"""A full disk has one line when it begins, one a minute, and one when it is over."""

from headrace.broker.maintenance.full_directory_log import (
    QUIET_CHECKS,
    REMINDER_S,
    DirectoryState,
    FullDirectoryLog,
)


def state(refused: int, *full: str) -> DirectoryState:
    return DirectoryState("/data", refused, full, 4096)


def sentences(log: FullDirectoryLog, found: DirectoryState, now_s: float) -> list[str]:
    return [each.sentence for each in log.update([found], now_s)]


FULL = "log directory full: it refuses appends until there is space"
RECOVERED = "log directory has space again"


def test_the_first_refused_append_is_logged_with_the_path_and_the_free_bytes() -> None:
    (event,) = FullDirectoryLog().update([state(3, "a-0", "b-1")], 0.0)
    assert event.sentence == FULL
    assert event.fields == {
        "dir": "/data",
        "free_bytes": 4096,
        "refused_appends": 3,
        "logs": 2,
        "examples": "a-0, b-1",
    }


def test_while_it_is_full_there_is_one_line_a_minute() -> None:
    log = FullDirectoryLog()
    lines = [sentences(log, state(second + 1, "a-0"), second) for second in range(121)]
    assert [second for second, line in enumerate(lines) if line] == [0, REMINDER_S, 2 * REMINDER_S]


def test_a_directory_that_nobody_writes_to_has_no_reminder() -> None:
    log = FullDirectoryLog()
    assert sentences(log, state(1, "a-0"), 0.0) == [FULL]
    assert sentences(log, state(1, "a-0"), 10 * REMINDER_S) == []


def test_it_has_recovered_when_no_append_was_refused_for_a_moment() -> None:
    log = FullDirectoryLog()
    sentences(log, state(2, "a-0"), 0.0)
    assert sentences(log, state(2), 1.0) == []
    assert sentences(log, state(3, "a-0"), 2.0) == []  # at the last free bytes: not recovered
    for check in range(QUIET_CHECKS - 1):
        assert sentences(log, state(3), 3.0 + check) == []
    (event,) = log.update([state(3)], 9.0)
    assert event.sentence == RECOVERED
    assert event.fields == {"dir": "/data", "free_bytes": 4096, "refused_appends": 3, "s": 9}
    assert sentences(log, state(3), 10.0) == []
    assert sentences(log, state(4, "a-0"), 11.0) == [FULL]
