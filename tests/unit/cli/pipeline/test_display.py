"""A run's events as a screen, as lines and as metrics say the same."""

import json
import re
from dataclasses import replace

import pytest
from prometheus_client import generate_latest
from rich.console import Console

from headrace.cli.pipeline.display import Display, print_line
from headrace.client.results import TopicPartition
from headrace.pipeline.application.metrics import Metrics
from headrace.pipeline.runner.events import Event, EventKind

BATCH = Event(
    "orders",
    EventKind.BATCH,
    batch_id=7,
    offsets_read=1300,
    rows=1234,
    bad={"NotJson": 3},
    dead_letters=2,
    skipped=1,
    seconds=0.75,
    phases={"plan": 0.25, "write": 0.5},
    version="8",
    offsets={TopicPartition("t", 0): 1300},
    lag={TopicPartition("t", 0): 41},
)
IDLE = Event("orders", EventKind.IDLE, lag={TopicPartition("t", 0): 0})
RETRY = Event("orders", EventKind.RETRY, message="no broker answers")


def screen(display: Display, width: int = 120, height: int = 40) -> str:
    console = Console(width=width, height=height, highlight=False)
    with console.capture() as captured:
        console.print(display)
    return captured.get()


def test_the_screen_shows_rows_bad_records_phases_version_and_lag() -> None:
    display = Display(["orders"])
    assert "Spark is starting" in screen(display)
    for event in (Event("orders", EventKind.STARTED), BATCH, BATCH, RETRY):
        display(event)
    text = screen(display)
    for part in (
        "orders  retry",
        "2,468",
        "6 (4 dead letters): 6 NotJson",
        "plan=0.25  write=0.50",
    ):
        assert part in text
    for part in (
        "version 8, 1 partition, lag 41",
        "t-0",
        "1,300",
        "no broker answers",
    ):
        assert part in text


def test_at_80_columns_no_phase_is_split_and_a_long_note_stays_indented() -> None:
    display = Display(["orders"])
    names = ("plan", "read", "transform", "check", "write", "commit", "dead_letters", "offsets")
    display(replace(BATCH, phases=dict.fromkeys(names, 12.5)))
    display(replace(RETRY, message="no broker answers at 127.0.0.1:9092; " * 3))
    lines = screen(display, width=80, height=24).splitlines()
    for name in names:
        assert sum(f"{name}=12.50" in line for line in lines) == 1
    wrapped = [line for line in lines if "9092" in line]
    assert len(wrapped) > 1
    assert all(line.startswith("  ") for line in wrapped)


def test_a_batch_under_way_is_shown_and_so_is_that_the_run_ends_after_it() -> None:
    display = Display(["orders"])
    for event in (Event("orders", EventKind.STARTED), BATCH):
        display(event)
    display(Event("orders", EventKind.BEGUN, batch_id=8, offsets_read=4000))
    assert "this batch   8: 4,000 offsets" in screen(display)
    assert "Ctrl-C finishes the batch and stops." in screen(display)
    display(Event("orders", EventKind.STOPPING, message="the batch is finished first"))
    assert "Press Ctrl-C again to stop immediately" in screen(display)
    display(BATCH)
    assert "orders  stopping" in screen(display)
    display(Event("orders", EventKind.STOPPED))
    assert "orders  stopped" in screen(display)


def test_a_batch_under_way_shows_the_lag_that_it_began_with() -> None:
    display = Display(["orders"])
    display(replace(BATCH, lag={TopicPartition("t", 0): 0}))
    begun = Event("orders", EventKind.BEGUN, batch_id=8, lag={TopicPartition("t", 0): 5000})
    display(begun)
    assert "1 partition, lag 5,000" in screen(display)


def test_a_lag_that_is_old_shows_its_age() -> None:
    display = Display(["orders"])
    display(replace(BATCH, time_s=BATCH.time_s - 3600))
    display(RETRY)
    assert re.search(r"lag 41 \(\d{4} s ago\)", screen(display))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (60, 15), (300, 20)])
def test_two_hundred_partitions_fit_any_terminal_those_with_most_lag_first(
    width: int, height: int
) -> None:
    offsets = {TopicPartition("orders", each): 1000 * each for each in range(200)}
    lag = {each: each.partition for each in offsets}
    display = Display(["orders"])
    display(replace(BATCH, offsets=offsets, lag=lag))
    text = screen(display, width, height)
    assert len(text.splitlines()) <= height
    assert "orders-199" in text
    assert "200 partitions, lag 19,900" in text
    if "orders-0 " not in text:
        assert " more " in text


def test_a_line_is_json_and_nothing_is_said_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(BATCH)
    print_line(IDLE)
    (line,) = capsys.readouterr().out.splitlines()
    said = json.loads(line)
    assert (said["flow"], said["kind"], said["batch_id"], said["rows"]) == (
        "orders",
        "batch",
        7,
        1234,
    )
    assert said["offsets"] == {"t": {"0": 1300}}
    assert said["lag"] == {"t": {"0": 41}}
    assert said["phases"] == {"plan": 0.25, "write": 0.5}


def test_metrics_count_batches_and_follow_the_lag() -> None:
    metrics = Metrics()
    for event in (BATCH, RETRY, Event("orders", EventKind.FAILED, message="no")):
        metrics(event)
    text = generate_latest(metrics.registry).decode()
    for line in (
        'headrace_pipeline_rows_total{flow="orders"} 1234.0',
        'headrace_pipeline_bad_records_total{error="NotJson",flow="orders"} 3.0',
        'headrace_pipeline_dead_letters_total{flow="orders"} 2.0',
        'headrace_pipeline_last_batch{flow="orders"} 7.0',
        'headrace_pipeline_lag{flow="orders",partition="0",topic="t"} 41.0',
        'headrace_pipeline_batch_seconds_sum{flow="orders",phase="write"} 0.5',
        'headrace_pipeline_retries_total{flow="orders"} 1.0',
        'headrace_pipeline_failures_total{flow="orders"} 1.0',
    ):
        assert line in text
    metrics(IDLE)
    text = generate_latest(metrics.registry).decode()
    assert 'headrace_pipeline_lag{flow="orders",partition="0",topic="t"} 0.0' in text
