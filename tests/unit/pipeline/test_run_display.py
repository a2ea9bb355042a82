"""A run's events as a screen, as lines and as metrics say the same."""

import json

import pytest
from prometheus_client import generate_latest
from rich.console import Console

from headrace.cli.pipeline_display import Display, print_line
from headrace.client.outcomes import TopicPartition
from headrace.pipeline.runner.events import Event, Kind
from headrace.pipeline.runner.metrics import Metrics

BATCH = Event(
    "orders",
    Kind.BATCH,
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
IDLE = Event("orders", Kind.IDLE, lag={TopicPartition("t", 0): 0})
RETRY = Event("orders", Kind.RETRY, message="no broker answers")


def test_the_screen_shows_rows_bad_records_phases_version_and_lag() -> None:
    display = Display()
    for event in (Event("orders", Kind.STARTED), BATCH, BATCH, RETRY):
        display(event)
    console = Console(width=100)
    with console.capture() as captured:
        console.print(display.render())
    text = captured.get()
    for part in ("orders  retry", "2,468", "6  (4 to the dead letters)", "plan 0.25  write 0.50"):
        assert part in text
    for part in ("version 8, lag 41", "t-0", "1,300", "no broker answers"):
        assert part in text


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
    for event in (BATCH, RETRY, Event("orders", Kind.FAILED, message="no")):
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
