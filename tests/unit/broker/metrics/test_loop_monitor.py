"""The lag and the load of an event loop."""

import asyncio

import pytest

from headrace.broker.metrics.loop_monitor import INTERVAL_S, WINDOW_S, LoopMonitor
from support.brokers.virtual_loop import run_virtually


class Counted:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def test_a_loop_on_time_has_no_lag_and_windows_follow_each_other() -> None:
    fold, rotate = Counted(), Counted()

    async def main() -> LoopMonitor:
        monitor = LoopMonitor(asyncio.get_running_loop(), fold, rotate, lambda: 0.0)
        await asyncio.sleep(2.5 * WINDOW_S)
        monitor.stop()
        return monitor

    monitor = run_virtually(main())
    assert monitor.lag.sum == pytest.approx(0, abs=1e-6)
    assert monitor.lag.count == fold.calls == pytest.approx(2.5 * WINDOW_S / INTERVAL_S, abs=1)
    assert rotate.calls == 2
    assert monitor.idle_share == 1.0


def test_the_busy_share_is_the_cpu_time_of_the_thread() -> None:
    async def main() -> LoopMonitor:
        loop = asyncio.get_running_loop()
        monitor = LoopMonitor(loop, Counted(), Counted(), lambda: loop.time() * 0.75)
        await asyncio.sleep(1.1 * INTERVAL_S)
        monitor.stop()
        return monitor

    assert run_virtually(main()).idle_share == pytest.approx(0.25)


def test_a_late_timer_is_lag() -> None:
    """Something has kept the loop for a second when the timer was due."""

    async def main() -> LoopMonitor:
        loop = asyncio.get_running_loop()
        monitor = LoopMonitor(loop, Counted(), Counted(), lambda: 0.0)
        loop._jumping.passed_s += INTERVAL_S + 1.0  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)
        monitor.stop()
        return monitor

    assert run_virtually(main()).lag.sum == pytest.approx(1.0, abs=0.02)
