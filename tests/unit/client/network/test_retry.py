"""Backoff and deadlines, with a test clock."""

from random import Random

import pytest

from headrace.client.network.retry import Backoff, Deadline


class _Clock:
    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return 0


def test_delays_double_up_to_the_limit() -> None:
    backoff = Backoff(initial_s=0.1, max_s=1.0, jitter=0)
    waits = [backoff.delay_s(failures, Random(1)) for failures in (1, 2, 3, 4, 5, 10_000)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_jitter_stays_within_its_share() -> None:
    backoff, random = Backoff(initial_s=1.0, max_s=1.0, jitter=0.2), Random(1)
    waits = [backoff.delay_s(1, random) for _ in range(500)]
    assert 0.8 <= min(waits) < 0.85
    assert 1.15 < max(waits) <= 1.2


@pytest.mark.parametrize(
    "options",
    [{"initial_s": 0}, {"initial_s": 2, "max_s": 1}, {"multiplier": 0.5}, {"jitter": 1}],
)
def test_an_invalid_backoff_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="backoff"):
        Backoff(**options)


def test_a_deadline_counts_down_to_zero() -> None:
    clock = _Clock()
    deadline = Deadline(clock, 5)
    assert deadline.remaining_s() == 5
    clock.now_s += 4
    assert deadline.remaining_s() == 1
    clock.now_s += 4
    assert deadline.remaining_s() == 0
