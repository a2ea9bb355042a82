"""Shards that load together have one line."""

import pytest

from headrace.broker.coordinators.load_log import LoadLog
from headrace.testing.virtual_clock import VirtualClock

TOPIC = "__consumer_offsets"


def test_shards_that_load_together_have_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = VirtualClock()
    log = LoadLog(TOPIC, clock.monotonic)
    log.began(is_first=True)
    log.began(is_first=False)
    clock.advance(2)
    log.loaded(7, ["group", "another"])
    log.loaded(3, ["third"])
    log.ended()
    log.ended()  # a load that was cancelled
    (record,) = caplog.records
    assert record.getMessage() == "loaded coordinator shards"
    found = record.__dict__
    assert (found["partitions"], found["entries"], found["ms"]) == (2, 3, 2000)
    assert found["examples"] == "__consumer_offsets-3, __consumer_offsets-7"


def test_shards_that_are_unloaded_together_have_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log = LoadLog(TOPIC, VirtualClock().monotonic)
    assert [log.unloaded(index) for index in (3, 4, 5)] == [True, False, False]
    log.report_unloaded()
    (record,) = caplog.records
    assert record.getMessage() == "unloaded coordinator shards"
    assert record.__dict__["partitions"] == 3
    assert log.unloaded(6)
