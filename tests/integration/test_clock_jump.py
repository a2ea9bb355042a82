"""A clock that jumps ahead does not delete data at the first check."""

import asyncio

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.broker.maintenance.periodic_tasks import _Producers, _Retention
from headrace.clock import SystemClock
from headrace.testing import Broker
from support.waiting import wait_for
from support.wire.batches import batch, now_ms, produce
from support.wire.connection import Wire
from support.wire.topics import create_topic

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


class JumpingClock(SystemClock):
    """A system clock that the test sets."""

    __slots__ = ("ahead_ms", "slept_s")

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.slept_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.slept_s

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


def test_nothing_is_deleted_at_the_first_check_after_a_clock_jump() -> None:
    clock = JumpingClock()
    with Broker(clock=clock) as broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "kept", 1, {"retention.ms": HOUR_MS})
        assert produce(wire, "kept", batch(b"x", timestamp=now_ms())).error_code == 0
        assert broker._running is not None
        node, loop = broker._running.broker, broker._running._loop
        retention = _Retention(node)

        def start_after_a_look() -> int:
            asyncio.run_coroutine_threadsafe(retention.run(), loop).result(60)
            log = node.logs.get("kept", 0)
            assert log is not None
            return log.log_start_offset

        assert start_after_a_look() == 0
        clock.ahead_ms = WEEK_MS  # set wrong ...
        assert start_after_a_look() == 0
        clock.ahead_ms = 0  # ... and right again
        assert start_after_a_look() == 0
        clock.ahead_ms = WEEK_MS  # the jump is real: the second check accepts it
        assert start_after_a_look() == 0
        assert start_after_a_look() == 1


def test_elapsed_time_is_not_treated_as_a_clock_jump() -> None:
    clock = JumpingClock()
    with Broker(clock=clock) as broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "aged", 1, {"retention.ms": HOUR_MS})
        assert produce(wire, "aged", batch(b"x", timestamp=now_ms())).error_code == 0
        assert broker._running is not None
        node, loop = broker._running.broker, broker._running._loop
        retention = _Retention(node)
        clock.ahead_ms += WEEK_MS
        clock.slept_s += WEEK_MS / 1000
        asyncio.run_coroutine_threadsafe(retention.run(), loop).result(60)
        log = node.logs.get("aged", 0)
        assert log is not None
        assert log.log_start_offset == 1


def test_committed_offsets_survive_a_temporarily_wrong_clock(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A group without members has only its committed offsets to show its position."""
    clock = JumpingClock()
    settings = {"offsets.retention.check.interval.ms": "20"}
    with Broker(clock=clock, settings=settings) as broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "t", 1)
        assert produce(wire, "t", batch(b"x", timestamp=now_ms())).error_code == 0
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
        try:
            consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
            clock.ahead_ms = 5 * WEEK_MS
            wait_for(lambda: "jumped ahead" in caplog.text, "a look has noticed")
            clock.ahead_ms = 0
            (found,) = consumer.committed([TopicPartition("t", 0)], timeout=10)
            assert found.offset == 1
        finally:
            consumer.close()


def test_producers_do_not_expire_at_the_first_check_after_a_clock_jump() -> None:
    clock = JumpingClock()
    with Broker(clock=clock) as broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "t", 1)
        sent = batch(b"x", timestamp=now_ms(), producer_id=7, producer_epoch=0, base_sequence=0)
        assert produce(wire, "t", sent).error_code == 0
        assert broker._running is not None
        node, loop = broker._running.broker, broker._running._loop
        producers = _Producers(node)

        def known_after_a_look() -> bool:
            asyncio.run_coroutine_threadsafe(producers.run(), loop).result(60)
            log = node.logs.get("t", 0)
            assert log is not None
            return 7 in log.producers

        assert known_after_a_look()
        clock.ahead_ms = WEEK_MS
        assert known_after_a_look()
        assert not known_after_a_look()  # the jump is real
