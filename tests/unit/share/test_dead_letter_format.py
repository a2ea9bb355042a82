"""What a dead letter says, and where it may go."""

import pytest

from headrace.records.record import iter_records
from headrace.share.dead_letter_format import Original, RecordOrigin, first_batch, topic_problem
from headrace.share.record_state import RejectedRecord

ORIGIN = RecordOrigin("g", "t", 3)


def letters(
    letter: RejectedRecord, originals: dict[int, Original] | None = None, max_bytes: int = 1 << 20
) -> tuple[int, list[tuple[bytes | None, str]]]:
    last, batch = first_batch(ORIGIN, letter, originals or {}, now_ms=5, max_bytes=max_bytes)
    assert len(batch) <= max_bytes
    records = iter_records(batch, max_bytes=1 << 24)
    found = [(one.value, dict(one.headers)["__dlq.errors.offset"].decode()) for one in records]  # type: ignore[union-attr]
    return last, found


def test_each_record_has_its_own_dead_letter() -> None:
    assert letters(RejectedRecord(4, 6, 1, True)) == (6, [(None, "4"), (None, "5"), (None, "6")])


def test_dead_letters_that_do_not_fit_wait_for_the_next_batch() -> None:
    last, found = letters(RejectedRecord(0, 99, 1, True), max_bytes=1_000)
    assert 0 < last < 99
    assert len(found) == last + 1


def test_a_record_that_is_too_large_is_not_copied() -> None:
    originals = {0: Original(b"k", b"x" * 5_000), 1: Original(b"k", b"y")}
    assert letters(RejectedRecord(0, 1, 1, True), originals, 1_000) == (
        1,
        [(None, "0"), (b"y", "1")],
    )


def test_dead_letters_end_with_the_records_that_were_read() -> None:
    originals = {0: Original(None, b"a"), 1: Original(None, b"b")}
    assert letters(RejectedRecord(0, 9, 1, True), originals) == (1, [(b"a", "0"), (b"b", "1")])


@pytest.mark.parametrize(
    ("name", "exists", "enabled", "says"),
    [
        ("__x", True, True, "reserved"),
        ("other", True, True, "must begin with dlq."),
        ("dlq.x", True, False, "errors.deadletterqueue.group.enable"),
        ("dlq.x", True, True, None),
        ("dlq.x", False, False, None),
    ],
)
def test_a_topic_must_be_meant_for_dead_letters(
    name: str, exists: bool, enabled: bool, says: str | None
) -> None:
    problem = topic_problem(name, "dlq.", exists=exists, enabled=enabled)
    assert (problem is None) if says is None else (problem is not None and says in problem)
