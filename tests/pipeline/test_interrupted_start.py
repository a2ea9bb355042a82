"""Ctrl-C while Spark starts leaves no process behind."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.cli.exit_codes import ExitCode
from support.pipelines.driver import descendants, started
from support.waiting import wait_for

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow]

DEADLINE_S = 120.0
JVM = "org.apache.spark.deploy.SparkSubmit"
STAGES = (("spark-submit", JVM), (JVM,))
"""Spark's shell script, or the JVM that it becomes if the script was too quick; the JVM."""


@pytest.mark.parametrize("stage", STAGES, ids=["first process", "jvm"])
def test_ctrl_c_while_spark_starts_ends_the_jvm_too(
    stage: tuple[str, ...], tmp_path: Path, bootstrap: str, topic: str
) -> None:
    spec = tmp_path / "pipeline.yaml"
    spec.write_text(f"""
pipeline: interrupted
source: {{topics: [{topic}], value: {{format: json}}}}
sink: {{format: delta, table: table}}
checkpoint: checkpoint
""")
    command = [sys.executable, "-m", "headrace", "pipeline", "run", str(spec), "-b", bootstrap]
    log = tmp_path / "output.txt"
    with log.open("wb") as out:  # not a pipe: a JVM that is left would keep it open
        run = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    group = None
    try:
        wait_for(lambda: _running(run.pid, stage), f"{stage[0]} to start", deadline_s=DEADLINE_S)
        (group,) = {os.getpgid(pid) for pid in _running(run.pid, stage)}
        spark = started(group)
        assert spark is not None
        run.send_signal(signal.SIGINT)
        assert run.wait(DEADLINE_S) == ExitCode.INTERRUPTED, log.read_text()
        assert "Traceback" not in log.read_text()
        assert not spark.is_there
        assert _alive_in(group) == []
    finally:
        for pid in (run.pid, *descendants(run.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.wait()
        if group is not None:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def _running(pid: int, programs: tuple[str, ...]) -> list[int]:
    """Descendants with one of these programs in their command line."""
    return [
        each
        for each in descendants(pid)
        if any(program in _command_line(each) for program in programs)
    ]


def _alive_in(group: int) -> list[str]:
    """Processes of the group that still run: one that is dead may wait for its parent."""
    stats = [_text(file) for file in Path("/proc").glob("[0-9]*/stat")]
    fields = [(stat, stat.rpartition(")")[2].split()) for stat in stats if stat]
    return [stat for stat, (state, _, of, *_) in fields if of == str(group) and state != "Z"]


def _command_line(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/cmdline")).replace("\0", " ")


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
