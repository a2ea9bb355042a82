"""When `consume` is complete, and that it never waits without a limit."""

from collections.abc import Callable

import pytest

from headrace.cli.exit_codes import CommandFailed
from headrace.cli.records import consume_loop
from headrace.cli.records.consume_loop import ConsumeLoop, Ends
from headrace.client.results import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_run_without_a_bound_is_never_complete() -> None:
    ends = Ends()
    ends.assign([A])
    ends.at_end(A)
    assert not ends.bounded
    assert not ends.complete


def test_at_the_end_means_the_end_of_every_assigned_partition() -> None:
    ends = Ends(exit_at_end=True)
    assert not ends.complete
    ends.assign([A, B])
    ends.at_end(A)
    assert not ends.complete
    ends.at_end(B)
    assert ends.complete


def test_a_record_after_the_end_reopens_its_partition() -> None:
    ends = Ends(exit_at_end=True)
    ends.assign([A])
    ends.at_end(A)
    assert ends.accept(A, 5, 0)
    assert not ends.complete


def test_partitions_that_went_to_another_member_are_not_waited_for() -> None:
    ends = Ends(exit_at_end=True)
    ends.assign([A, B])
    ends.at_end(A)
    ends.revoke([B])
    assert ends.complete
    ends.revoke([A])
    assert not ends.complete, "a member without partitions waits for its next assignment"
    ends.assign([B])
    assert not ends.complete, "the end was that of another assignment"


def test_a_stop_offset_ends_its_partition_and_keeps_what_is_behind_it_out() -> None:
    ends = Ends(stops={A: 3, B: 2})
    ends.assign([A, B])
    assert ends.accept(A, 1, 0)
    assert not ends.accept(A, 3, 0)
    assert ends.accept(B, 1, 0), "the last record before the stop"
    assert ends.complete


def test_a_gap_before_the_stop_offset_does_not_hang() -> None:
    ends = Ends(stops={A: 3})
    ends.assign([A])
    assert ends.accept(A, 1, 0)
    ends.at_end(A)
    assert ends.complete


def test_a_time_in_the_future_ends_a_partition_with_its_first_late_record() -> None:
    ends = Ends(until_ms=100)
    ends.assign([A])
    ends.at_end(A)
    assert not ends.complete
    assert ends.accept(A, 0, 99)
    assert not ends.accept(A, 1, 100)
    assert ends.complete


class Silent:
    """A consumer to which nothing ever comes."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick

    def consume(self, count: int, timeout: float) -> list[object]:
        self._tick()
        return []

    def assignment(self) -> list[object]:
        return []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Each call moves time on by a second."""
    now = [0.0]
    monkeypatch.setattr(consume_loop.time, "monotonic", lambda: now[0])

    def tick() -> None:
        now[0] += 1.0

    return tick


def test_silence_has_a_limit_where_the_run_is_meant_to_end(clock: Callable[[], None]) -> None:
    reader = ConsumeLoop(Silent(clock), Ends(exit_at_end=True), None)  # type: ignore[arg-type]
    with pytest.raises(CommandFailed, match="60 s"):
        list(reader.batches())


def test_a_member_without_partitions_ends_after_a_moment(clock: Callable[[], None]) -> None:
    consumer = Silent(clock)
    reader = ConsumeLoop(consumer, Ends(exit_at_end=True), None)  # type: ignore[arg-type]
    reader.on_assign(consumer, [])  # type: ignore[arg-type]
    assert list(reader.batches()) == []
