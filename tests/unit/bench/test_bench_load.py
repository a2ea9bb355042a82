"""The load generator's output becomes figures or an error message."""

from pathlib import Path

import pytest
from bench.load_generator import LoadError, LoadGenerator


def generator(tmp_path: Path, script: str) -> LoadGenerator:
    program = tmp_path / "load"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return LoadGenerator(program)


def test_the_last_output_line_holds_the_figures(tmp_path: Path) -> None:
    load = generator(tmp_path, """echo '{"mode":"x","count":3,"seconds":0.5}'""")
    assert load.run("x", "localhost:1") == {"count": 3.0, "seconds": 0.5}


def test_the_timed_part_excludes_its_preparation(tmp_path: Path) -> None:
    load = generator(tmp_path, """echo '{"ready":1}'; echo '{"count":3}'""")
    heard: list[str] = []
    figures = load.watch(
        "x",
        "localhost:1",
        {},
        on_ready=lambda: heard.append("ready"),
        on_done=lambda: heard.append("done"),
    )
    assert (heard, figures) == (["ready", "done"], {"count": 3.0})


def test_a_failure_quotes_the_load_generator(tmp_path: Path) -> None:
    load = generator(tmp_path, "echo 'load: no broker' >&2; exit 1")
    with pytest.raises(LoadError, match=r"x bootstrap=localhost:1 .*: load: no broker"):
        load.run("x", "localhost:1")


def test_a_generator_without_figures_has_failed(tmp_path: Path) -> None:
    with pytest.raises(LoadError):
        generator(tmp_path, "exit 0").run("x", "localhost:1")


def test_a_survived_event_is_not_a_failure(tmp_path: Path) -> None:
    load = generator(tmp_path, """echo 'load: a broker was away' >&2; echo '{"count":1}'""")
    assert load.run("x", "localhost:1") == {"count": 1.0}
