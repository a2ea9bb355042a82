"""`headrace demo` without Spark: what it passes on, and what it shows."""

from pathlib import Path

import pytest

from headrace.cli.broker.banner import NOWHERE
from headrace.cli.broker.options import UpOptions, parse_up
from headrace.cli.pipeline.demo import words_of
from headrace.cli.pipeline.demo_screen import begin, end, line, short
from headrace.pipeline.dead_letters.error_groups import ErrorGroup
from headrace.pipeline.demo.demo_result import DemoResult
from headrace.pipeline.demo.demo_run import DemoProgress
from headrace.pipeline.demo.traffic import Traffic
from headrace.pipeline.runner.events import Event, EventKind


def test_the_brokers_options_are_passed_on_as_they_were_given() -> None:
    options = UpOptions(
        data=Path("a b"), port=0, host="::1", set=("a=b", "c="), log_format="json", verbose=True
    )
    assert parse_up(words_of(options)) == options
    assert parse_up(words_of(UpOptions())) == UpOptions()
    assert parse_up(words_of(UpOptions(ephemeral=True))) == UpOptions(ephemeral=True)


def test_the_last_screen_has_the_counts_and_commands_with_the_address(tmp_path: Path) -> None:
    group = ErrorGroup("demo-orders", "demo-orders", "NotJson", "is incomplete JSON", count=4)
    screen = end(DemoResult(1200, 1196, 7, 4, [group], []), "127.0.0.1:4711", tmp_path)
    assert "1,196 + 4 = 1,200 orders: each exactly once" in screen
    assert "4  NotJson: is incomplete JSON" in screen
    commands = [each for each in screen.splitlines() if " -b " in each]
    assert len(commands) >= 4
    assert all("-b 127.0.0.1:4711" in each for each in commands)
    usual = end(DemoResult(1200, 1196, 7, 4, [group], []), "127.0.0.1:9092", tmp_path)
    assert " -b " not in usual


@pytest.mark.parametrize("width", [80, 100])
def test_both_screens_fit_the_width_of_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "projects/headrace/.venv/bin/python"))
    monkeypatch.setattr("sys.argv", [str(tmp_path / "projects/headrace/.venv/bin/headrace")])
    monkeypatch.chdir(tmp_path)
    servers = "192.168.100.100:19092"
    folder = tmp_path / ".local/share/headrace-demo"
    mismatch = "does not fit the schema: amount: expected decimal(10,2), found string … and more"
    groups = [
        ErrorGroup("demo-orders", "demo-orders", "SchemaMismatch", mismatch, count=12_345),
        ErrorGroup("demo-orders", "demo-orders", "MissingField", "id is required", count=3),
    ]
    result = DemoResult(10_000_000, 9_987_652, 1_000, 12_348, groups, [])
    first = begin(servers, NOWHERE, 10_000_000, "demo-orders", folder / "p.yaml", width=width)
    last = end(result, servers, folder, width=width)
    # The location is a path of the machine, which has no place for a break.
    lines = [each for each in (first + last).splitlines() if str(tmp_path) not in each]
    assert [each for each in lines if len(each) > width] == []
    assert "3  MissingField: id is required" in last
    whole = last.replace(" \\\n     ", "")
    assert "pipeline status .local/share/headrace-demo/pipeline.yaml -b 192.168" in whole


def test_paths_are_shown_from_here_or_from_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.chdir(tmp_path)
    assert short(tmp_path / "a" / "b") == "a/b"
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path / "x")
    assert short(tmp_path / "me" / "b") == "~/b"
    assert short(tmp_path / "b") == str(tmp_path / "b")


def test_the_line_of_progress_counts_what_is_to_go() -> None:
    traffic = Traffic("127.0.0.1:1", "orders", [], orders_per_second=1)
    traffic.delivered = 1_000
    progress = DemoProgress(batches=1, rows=690, dead_letters=10, read=700)
    assert line(traffic, progress) == "1,000 produced, 690 written, 10 dead-lettered, 300 to go"
    waiting = DemoProgress()
    assert line(traffic, waiting) == "1,000 orders produced; Spark is starting, 0 s"
    waiting.add(Event("demo", EventKind.STARTED))
    assert line(traffic, waiting) == "1,000 orders produced; the first batch is running, 0 s"
