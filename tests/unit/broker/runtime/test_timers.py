"""Timers fire in order, once, on the broker's clock, and are cheap to postpone."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from headrace.broker.runtime.timers import MIN_STALE_ENTRIES, KeyedTimers, Timers
from headrace.clock import SystemClock


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0
        self._moved: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def subscribe(self, moved: Callable[[], None]) -> None:
        self._moved.append(moved)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for moved in self._moved:
            moved()


async def settle() -> None:
    """Runs the loop until no callback is ready."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_timers_fire_in_the_order_of_their_deadlines() -> None:
    async def scenario() -> None:
        clock = HandClock()
        timers = Timers(asyncio.get_running_loop(), clock)
        ran: list[str] = []
        for name, delay_s in (("third", 3.0), ("first", 1.0), ("second", 2.0), ("far", 9.0)):
            timers.call_later(delay_s, lambda name=name: ran.append(name))
        await settle()
        assert ran == []
        clock.advance(3.0)
        await settle()
        assert ran == ["first", "second", "third"]

    asyncio.run(scenario())


def test_a_cancelled_timer_does_not_run() -> None:
    async def scenario() -> None:
        clock = HandClock()
        timers = Timers(asyncio.get_running_loop(), clock)
        ran: list[int] = []
        kept = timers.call_later(1, lambda: ran.append(1))
        gone = timers.call_later(1, lambda: ran.append(2))
        gone.cancel()
        gone.cancel()
        clock.advance(1)
        await settle()
        kept.cancel()
        assert ran == [1]

    asyncio.run(scenario())


def test_a_failing_timer_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        clock = HandClock()
        timers = Timers(asyncio.get_running_loop(), clock)
        ran: list[int] = []
        timers.call_later(1, lambda: ran.append(1 // 0))
        timers.call_later(2, lambda: ran.append(2))
        clock.advance(5)
        await settle()
        assert ran == [2]

    asyncio.run(scenario())
    assert "unexpected error in the callback of a timer" in caplog.text


def test_cancelled_timers_do_not_accumulate() -> None:
    async def scenario() -> None:
        timers = Timers(asyncio.get_running_loop(), HandClock())
        for _ in range(MIN_STALE_ENTRIES * 10):
            timers.call_later(1000, lambda: None).cancel()
        assert len(timers._heap) <= MIN_STALE_ENTRIES + 1

    asyncio.run(scenario())


def test_a_clock_may_be_moved_from_another_thread() -> None:
    async def scenario() -> None:
        clock = HandClock()
        timers = Timers(asyncio.get_running_loop(), clock)
        ran = asyncio.Event()
        timers.call_later(60, ran.set)
        mover = threading.Thread(target=clock.advance, args=(60,))
        mover.start()
        await asyncio.wait_for(ran.wait(), 30)
        mover.join()

    asyncio.run(scenario())


def test_timers_fire_on_the_system_clock() -> None:
    async def scenario() -> None:
        timers = Timers(asyncio.get_running_loop(), SystemClock())
        ran: list[str] = []
        done = asyncio.Event()
        timers.call_later(0.02, lambda: (ran.append("late"), done.set()))
        timers.call_later(0.01, lambda: ran.append("soon"))
        await asyncio.wait_for(done.wait(), 30)
        assert ran == ["soon", "late"]
        timers.call_later(0, lambda: ran.append("never"))
        timers.close()
        await asyncio.sleep(0.01)
        assert "never" not in ran

    asyncio.run(scenario())


class Keyed:
    """Keyed timers and the expired keys."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.expired: list[object] = []
        self.timers = Timers(asyncio.get_running_loop(), self.clock)
        self.keyed = KeyedTimers(self.timers, self.expired.append)

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await settle()


def test_a_key_expires_once_at_its_last_deadline() -> None:
    async def scenario() -> None:
        it = Keyed()
        it.keyed.set("a", 10)
        await it.advance(6)
        it.keyed.set("a", 10)  # later: at 16
        await it.advance(6)
        assert it.expired == []
        await it.advance(4)
        assert it.expired == ["a"]
        await it.advance(100)
        assert it.expired == ["a"]
        assert len(it.keyed) == 0

    asyncio.run(scenario())


def test_a_key_may_be_moved_to_an_earlier_deadline_and_back() -> None:
    async def scenario() -> None:
        it = Keyed()
        it.keyed.set("a", 10)
        it.keyed.set("a", 2)
        it.keyed.set("b", 5)
        await it.advance(2)
        assert it.expired == ["a"]
        it.keyed.set("a", 20)
        await it.advance(8)  # where the first entry of "a" still lies
        assert it.expired == ["a", "b"]
        await it.advance(12)
        assert it.expired == ["a", "b", "a"]

    asyncio.run(scenario())


def test_a_cancelled_key_does_not_expire_and_may_be_set_again() -> None:
    async def scenario() -> None:
        it = Keyed()
        it.keyed.set(("a", 1), 5)
        it.keyed.cancel(("a", 1))
        it.keyed.cancel("unknown")
        await it.advance(5)
        assert it.expired == []
        it.keyed.set(("a", 1), 5)
        it.keyed.set("other kind of key", 5)
        await it.advance(5)
        assert it.expired == [("a", 1), "other kind of key"]
        it.keyed.set("a", 1)
        it.keyed.clear()
        await it.advance(5)
        assert len(it.expired) == 2

    asyncio.run(scenario())


def test_heartbeats_leave_one_entry_per_key() -> None:
    async def scenario() -> None:
        it = Keyed()
        for _ in range(50):
            for member in range(100):
                it.keyed.set(member, 45)
            await it.advance(3)
        assert it.expired == []
        assert len(it.keyed._heap) <= 100
        await it.advance(45)
        assert sorted(it.expired) == list(range(100))

    asyncio.run(scenario())


def test_added_and_removed_keys_do_not_accumulate() -> None:
    async def scenario() -> None:
        it = Keyed()
        for number in range(MIN_STALE_ENTRIES * 10):
            it.keyed.set(number, 3600)
            it.keyed.cancel(number)
        assert len(it.keyed._heap) <= MIN_STALE_ENTRIES + 1
        it.keyed.set("last", 1)
        await it.advance(1)
        assert it.expired == ["last"]

    asyncio.run(scenario())


def test_a_key_set_again_during_its_expiry_is_not_lost() -> None:
    async def scenario() -> None:
        it = Keyed()
        it.keyed = KeyedTimers(
            it.timers, lambda key: (it.expired.append(key), it.keyed.set(key, 1))
        )
        it.keyed.set("again", 1)
        for count in (1, 2, 3):
            await it.advance(1)
            assert it.expired == ["again"] * count

    asyncio.run(scenario())


def test_a_callback_that_fails_does_not_stop_the_other_keys() -> None:
    async def scenario() -> None:
        it = Keyed()

        def expired(key: object) -> None:
            it.expired.append(key)
            raise ZeroDivisionError

        it.keyed = KeyedTimers(it.timers, expired)
        it.keyed.set("a", 1)
        it.keyed.set("b", 1)
        await it.advance(1)
        await settle()
        assert it.expired == ["a", "b"]

    asyncio.run(scenario())


def test_a_sleep_ends_when_the_clock_has_moved_and_can_be_cancelled() -> None:
    async def scenario() -> None:
        clock = HandClock()
        timers = Timers(asyncio.get_running_loop(), clock)
        sleeping = asyncio.ensure_future(timers.sleep(2.0))
        cancelled = asyncio.ensure_future(timers.sleep(2.0))
        await settle()
        cancelled.cancel()
        clock.advance(1.9)
        await settle()
        assert not sleeping.done()
        clock.advance(0.1)
        await settle()
        assert sleeping.done() and cancelled.cancelled()

    asyncio.run(scenario())
