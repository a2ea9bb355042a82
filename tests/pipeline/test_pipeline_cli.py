"""`headrace pipeline` on a real topic: run, kill, run again, and the other commands' output."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from support.cli.command import Cli, Ended
from support.pipelines.delta_pipeline import Send
from support.pipelines.driver import SHORT_LIVED
from support.wire.topics import MakeTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

RECORDS = 40
KILLED = 137
# The command in a process that exits right after its table commits a batch.
DOOMED = f"""
import os, sys
from headrace.cli import main
from headrace.pipeline.sinks.delta_sink import DeltaSink
commit = DeltaSink.commit
def killed(self, batch, written):
    commit(self, batch, written)
    os._exit({KILLED})
DeltaSink.commit = killed
sys.exit(main(sys.argv[1:]))
"""


def spec_of(folder: Path, topic: str, name: str) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(f"""
pipeline: {name}
source:
  topics: [{topic}]
  value: {{format: json}}
transform:
  - sql: SELECT id, _record.partition AS p, _record.offset AS o FROM source
sink: {{format: delta, table: table}}
on_error: skip
trigger: 100ms
checkpoint: checkpoint
spark: {json.dumps({"spark.sql.shuffle.partitions": "2", **SHORT_LIVED})}
""")
    return path


@pytest.mark.slow
def test_the_run_after_a_kill_leaves_the_table_exact(
    tmp_path: Path,
    bootstrap: str,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    send: Send,
    spark: "SparkSession",
) -> None:
    topic = make_topic(2)
    send(topic, [(n % 2, None, json.dumps({"id": n}).encode()) for n in range(RECORDS)])
    spec = spec_of(tmp_path, topic, new_name())
    words = ["pipeline", "run", str(spec), "--bootstrap", bootstrap, "--until-caught-up"]
    ended = subprocess.run(
        [sys.executable, "-c", DOOMED, *words, "--master", "local[1]"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "TERM": "dumb"},
    )
    assert ended.returncode == KILLED, ended.stderr
    assert json.loads(ended.stdout.splitlines()[0])["kind"] == "started"

    cli = Cli(bootstrap, tmp_path)
    lags: Any = cli("pipeline", "lag", str(spec), "--format", "json").facts
    assert [(row["held"], row["group"], row["lag"]) for row in lags] == [(20, None, 0)] * 2
    send(topic, [(0, None, b'{"id": 99}')])
    lines = cli.ok("pipeline", "run", str(spec), "--until-caught-up").splitlines()
    assert [json.loads(line)["kind"] for line in lines] == [
        "started",
        "batch",
        "caught_up",
        "stopped",
    ]
    wanted = sorted([*((n % 2, n // 2) for n in range(RECORDS)), (0, RECORDS // 2)])
    assert places(tmp_path) == wanted
    lags = cli("pipeline", "lag", str(spec), "--format", "json").facts
    assert [(row["held"], row["group"], row["lag"]) for row in lags] == [(21, 21, 0), (20, 20, 0)]


def test_commands_inspect_and_reset_a_pipeline(
    tmp_path: Path,
    bootstrap: str,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    send: Send,
    spark: "SparkSession",
) -> None:
    topic = make_topic(1)
    send(topic, [(0, None, json.dumps({"id": n}).encode()) for n in range(10)])
    name = new_name()
    spec = str(spec_of(tmp_path, topic, name))
    cli = Cli(bootstrap, tmp_path)
    cli.ok("pipeline", "run", spec, "--until-caught-up")
    first = [(0, n) for n in range(10)]
    assert places(tmp_path) == first

    (status,) = facts(cli("pipeline", "status", spec, "--format", "json"))
    assert (status["flow"], status["batch"], status["lag"]) == (name, 0, 0)
    assert (status["running"], status["last_event"]) == (False, "stopped")
    events = facts(cli("pipeline", "history", spec, "--format", "json"))
    assert [event["kind"] for event in events] == ["started", "batch", "caught_up", "stopped"]
    assert events[1]["offsets"] == {topic: {"0": 10}}

    plan = cli("pipeline", "backfill", spec, "--from", "2", "--to", "4")
    assert "Add --execute to read at most 2 records into the sinks again." in plan.stderr
    cli.ok("pipeline", "backfill", spec, "--from", "2", "--to", "4", "--execute")
    cli.ok(
        "pipeline", "backfill", spec, "--from", "2", "--to", "4", "--execute"
    )  # has finished already
    assert places(tmp_path) == sorted([*first, (0, 2), (0, 3)])

    before = facts(cli("pipeline", "lag", spec, "--format", "json"))
    assert "Nothing was changed." in cli("pipeline", "reset", spec, "--to", "8").stderr
    assert facts(cli("pipeline", "lag", spec, "--format", "json")) == before
    cli.ok("pipeline", "reset", spec, "--to", "8", "--execute")
    (lag,) = facts(cli("pipeline", "lag", spec, "--format", "json"))
    assert (lag["held"], lag["group"], lag["lag"]) == (8, 8, 2)
    cli.ok("pipeline", "run", spec, "--until-caught-up")
    assert places(tmp_path) == sorted([*first, (0, 2), (0, 3), (0, 8), (0, 9)])

    (joined,) = facts(cli("pipeline", "compact", spec, "--vacuum", "--format", "json"))
    assert (joined["files_joined"], joined["files_made"]) == (3, 1)
    assert len(places(tmp_path)) == 14


def test_a_run_that_cannot_start_says_why(
    tmp_path: Path, bootstrap: str, new_name: Callable[[], str], spark: "SparkSession"
) -> None:
    name = new_name()
    spec = spec_of(tmp_path, name, name)
    cli = Cli(bootstrap, tmp_path)
    ended = cli("pipeline", "run", str(spec), "--until-caught-up")
    assert ended.code == 1
    assert f"no topic {name!r}" in ended.stderr
    spec.write_text(spec.read_text().replace("delta", "dleta"))
    ended = cli("pipeline", "run", str(spec))
    assert ended.code == 2
    assert "did you mean delta?" in ended.stderr
    assert cli("pipeline", "validate", str(spec)).code == 2


def places(folder: Path) -> list[tuple[int, int]]:
    rows = DeltaTable(str(folder / "table")).to_pyarrow_table().to_pylist()
    return sorted((row["p"], row["o"]) for row in rows)


def facts(ended: Ended) -> Any:
    assert ended.code == 0, ended
    return ended.facts
