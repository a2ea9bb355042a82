"""A run on a terminal: what it shows, and how Ctrl-C and SIGTERM end it. Spark is left out."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.cli.pipeline.display import SHOW_CURSOR
from support.cli.terminal import CTRL_C, Terminal

pytestmark = pytest.mark.slow  # each test starts the command in a process

# The command, with flows whose batch ends when it is told to stop, or never.
COMMAND = """
import sys, threading, time
import headrace.pipeline.application.application as application
from headrace.cli import main
from headrace.client.results import TopicPartition
from headrace.pipeline.runner.events import Event, EventKind

class Told(application.Application):
    def _can_connect(self, flow):
        return True
    def _session(self, held, checkpoint):
        return None
    def _run_flow(self, flow, spark, report):
        report(Event(flow.id, EventKind.STARTED))
        at = {TopicPartition("orders", 0): 70}
        report(Event(flow.id, EventKind.BATCH, batch_id=0, rows=70, version="1", offsets=at))
        report(Event(flow.id, EventKind.BEGUN, batch_id=1, offsets_read=5))
        (threading.Event() if STUCK else self._stop).wait(100)
        report(Event(flow.id, EventKind.BATCH, batch_id=1, rows=5, version="2", offsets=at))
        report(Event(flow.id, EventKind.STOPPED))

application.Application = Told
STUCK = sys.argv.pop(1) == "stuck"
sys.exit(main(sys.argv[1:]))
"""

Start = Callable[..., Terminal]


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    spec = tmp_path / "pipeline.yaml"
    spec.write_text("""
pipeline: orders_to_lake
source: {topics: [orders], value: {format: json}}
sink: {format: delta, table: table}
checkpoint: checkpoint
""")
    return ["pipeline", "run", str(spec), "-b", "127.0.0.1:1"]


@pytest.fixture
def start(words: list[str]) -> Iterator[Start]:
    started: list[Terminal] = []

    def run(*, stuck: bool = False, **environment: str) -> Terminal:
        how = "stuck" if stuck else "ends"
        started.append(
            Terminal([sys.executable, "-c", COMMAND, how, *words], environment=environment)
        )
        return started[-1]

    yield run
    for each in started:
        each.close()


def test_ctrl_c_finishes_the_batch_and_says_so(start: Start) -> None:
    run = start()
    run.wait_for("this batch  1: 5 offsets")
    run.wait_for("Ctrl-C finishes the batch and stops.")
    run.type(CTRL_C)
    assert run.ended() == 0
    assert "stopping: the batch that is under way is finished first" in run.text
    assert "orders_to_lake: 75 rows in 2 batches, version 2, lag 0" in run.text.splitlines()[-1]
    assert run.raw.rindex(SHOW_CURSOR) > run.raw.rindex("\x1b[?25l")


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda run: run.type(CTRL_C), 130),
        (lambda run: run.send(signal.SIGTERM), 143),
    ],
    ids=["ctrl-c", "sigterm"],
)
def test_a_second_signal_ends_it_at_once_and_leaves_the_terminal_in_order(
    ask: Callable[[Terminal], None], code: int, start: Start
) -> None:
    run = start(stuck=True)
    run.wait_for("this batch  1: 5 offsets")
    ask(run)
    run.wait_for("Press Ctrl-C again to stop immediately")
    ask(run)
    assert run.ended() == code
    assert run.raw.rindex(SHOW_CURSOR) > run.raw.rindex("\x1b[?25l")


def test_there_are_no_colours_where_they_are_not_wanted(start: Start) -> None:
    shown = []
    for settings in ({"NO_COLOR": "1"}, {}):
        run = start(**settings)
        run.wait_for("this batch  1: 5 offsets")
        run.type(CTRL_C)
        assert run.ended() == 0
        shown.append("\x1b[32m" in run.raw)
    assert shown == [False, True]


def test_a_pipe_gets_lines_of_json_and_nothing_else(words: list[str]) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "ends", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TERM": "xterm", "CI": "true"},
    )
    assert run.stdout is not None
    lines = [run.stdout.readline(), run.stdout.readline()]
    run.send_signal(signal.SIGTERM)
    rest, errors = run.communicate(timeout=60)
    kinds = [json.loads(line)["kind"] for line in [*lines, *rest.splitlines()]]
    assert kinds.count("stopping") == 1  # its flow may be quicker than the word of it
    kinds.remove("stopping")
    assert kinds == ["started", "batch", "batch", "stopped"]
    assert (run.returncode, errors) == (0, "")


def test_a_dumb_terminal_gets_lines_too(start: Start) -> None:
    run = start(TERM="dumb")
    run.wait_for('"kind": "batch"')
    run.type(CTRL_C)
    assert run.ended() == 0
    assert "\x1b" not in run.raw
