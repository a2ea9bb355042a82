"""The timeline of batches: one scale, phases in their order, a rate over the last batches."""

from headrace.console.screens.pipeline_timeline import (
    BatchEvent,
    bars_of,
    positions_of,
    rows_per_s,
)


def batch(number: int, time_s: int, phases: dict[str, float], rows: int = 10) -> BatchEvent:
    return BatchEvent(
        time_s * 1000, "batch", number, rows, rows, 0, 0, sum(phases.values()), phases,
        str(number), {"t": {"0": number * 10}}, {"t": {"0": 5}}, "",
    )  # fmt: skip


STARTED = BatchEvent(0, "started", None, 0, 0, 0, 0, 0.0, {}, "", {}, {}, "")


def test_bars_are_in_the_scale_of_the_longest_batch_and_newest_first() -> None:
    events = [STARTED, batch(1, 1, {"write": 1.0}), batch(2, 3, {"commit": 0.5, "write": 1.5})]
    newest, oldest = bars_of(events, 10)
    assert [(each.phase, each.x, each.width) for each in newest.segments] == [
        ("write", 0.0, 750.0),
        ("commit", 750.0, 250.0),
    ]
    assert [each.width for each in oldest.segments] == [500.0]


def test_only_the_last_batches_have_bars() -> None:
    events = [batch(number, number, {"write": 1.0}) for number in range(5)]
    assert [bar.event.batch_id for bar in bars_of(events, 2)] == [4, 3]


def test_a_phase_of_another_release_is_shown_as_other() -> None:
    (bar,) = bars_of([batch(1, 1, {"write": 1.0, "polish": 1.0})], 10)
    assert [each.phase for each in bar.segments] == ["write", "other"]


def test_the_rate_counts_from_the_begin_of_the_first_batch() -> None:
    assert rows_per_s([STARTED]) is None
    assert rows_per_s([batch(1, 10, {"write": 2.0})]) == 5.0
    assert rows_per_s([batch(1, 10, {"write": 2.0}), batch(2, 18, {"write": 1.0})]) == 2.0


def test_the_position_is_that_of_the_last_batch() -> None:
    events = [batch(1, 1, {"write": 1.0}), batch(2, 2, {"write": 1.0}), STARTED]
    assert positions_of(events) == [("t", "0", 20, 5)]
    assert positions_of([STARTED]) == []
