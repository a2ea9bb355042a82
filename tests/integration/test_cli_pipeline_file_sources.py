"""`headrace pipeline` shows and resets flows from files and tables into topics."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.pipeline.application.spec_loader import load_spec
from headrace.pipeline.inflow.batch_intent import BatchIntent, BatchIntents
from headrace.pipeline.inflow.inflow_position import open_inflow
from headrace.pipeline.sinks.table_sink import BatchInfo
from support.cli.command import Cli, Ended

A_DAY_AGO = "s@2026-01-02T00:00:00Z"
JANUARY_S = 1_767_225_600  # 2026-01-01


def facts(ended: Ended) -> Any:
    assert ended.code == 0, ended
    return ended.facts


class Flow:
    """A spec, and the commands with it."""

    def __init__(self, servers: str, folder: Path, name: str, source: str) -> None:
        self.spec = folder / "pipeline.yaml"
        self.spec.write_text(f"""
pipeline: {name}
source: {source}
sink: {{format: topic, topic: {name}}}
checkpoint: checkpoint
""")
        self._cli = Cli(servers, folder)
        self._servers = servers
        self._folder = folder
        self.name = name

    def ask(self, *words: str) -> Any:
        """The JSON output of a command."""
        command, *rest = words
        return facts(self._cli("pipeline", command, str(self.spec), *rest, "--format", "json"))

    def lag(self) -> tuple[int, int, int]:
        (row,) = self.ask("lag")
        return row["held"], row["end"], row["lag"]

    def text(self, *words: str) -> str:
        command, *rest = words
        return self._cli.ok("pipeline", command, str(self.spec), *rest)

    def refused(self, *words: str) -> str:
        command, *rest = words
        ended = self._cli("pipeline", command, str(self.spec), *rest)
        assert ended.code != 0
        return ended.stderr

    def next_files(self) -> list[str]:
        """The names of the files that the next batch would read."""
        flow = load_spec(self.spec).resolved()[0]
        with closing(open_inflow(flow, {"bootstrap.servers": self._servers})) as inflow:
            intent = inflow.inputs.next_intent(0, inflow.read())
        return [] if intent is None else [path.rpartition("/")[2] for path in intent.files]

    def send_a_batch(self) -> None:
        """Sends an empty batch, as a run does."""
        flow = load_spec(self.spec).resolved()[0]
        with closing(open_inflow(flow, {"bootstrap.servers": self._servers})) as inflow:
            BatchIntents(self._folder / "checkpoint").save(BatchIntent(0, ()))
            batch = BatchInfo(self.name, 0, ())
            inflow.sink.write_task(batch)
            inflow.sink.commit(batch, [])


@pytest.fixture
def make_flow(tmp_path: Path, bootstrap: str, new_name: Callable[[], str]) -> Callable[[str], Flow]:
    return lambda source: Flow(bootstrap, tmp_path, new_name(), source)


def test_a_folder_of_files_has_a_lag_and_can_be_reset(
    tmp_path: Path, make_flow: Callable[[str], Flow]
) -> None:
    for day, name in enumerate(("a.json", "b.json", "c.json")):
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"id": 1}')
        os.utime(path, (JANUARY_S + day * 86400,) * 2)
    flow = make_flow("{files: in, format: json, schema: id BIGINT}")
    assert flow.lag() == (0, 3, 3)
    (state,) = flow.ask("status")
    assert (state["batch"], state["lag"], state["lag_unit"]) == (None, 3, "files")
    assert "files" in flow.text("lag")
    assert "never run" in flow.text("history")

    flow.ask("reset", "--to", "end", "--execute")  # before anything was sent
    assert (flow.lag(), flow.next_files()) == ((3, 3, 0), [])
    flow.ask("reset", "--execute")
    assert flow.lag() == (0, 3, 3)

    flow.send_a_batch()
    flow.ask("reset", "--to", "end", "--execute")
    assert (flow.lag(), flow.next_files()) == ((3, 3, 0), [])
    (tmp_path / "in" / "d.json").write_text('{"id": 2}')
    assert (flow.lag(), flow.next_files()) == ((3, 4, 1), ["d.json"])
    flow.ask("reset", "--to", A_DAY_AGO, "--execute")
    assert flow.next_files() == ["b.json", "c.json", "d.json"]
    flow.ask("reset", "--execute")
    assert (flow.lag(), flow.ask("status")[0]["batch"]) == ((0, 4, 4), 3)

    assert "beginning, from end, or from s@TIME" in flow.refused("reset", "--to", "7", "--execute")
    assert "does not read a topic" in flow.refused("backfill", "--from", "beginning")
    assert "writes to a topic" in flow.refused("compact")


def test_a_delta_table_has_a_lag_in_versions_and_can_be_reset(
    tmp_path: Path, make_flow: Callable[[str], Flow]
) -> None:
    for number in range(3):
        write_deltalake(str(tmp_path / "t"), pa.table({"id": [number]}), mode="append")
    flow = make_flow("{delta: t}")
    assert flow.lag() == (-1, 2, 3)
    flow.ask("reset", "--to", "2", "--execute")
    assert (flow.lag(), len(flow.next_files())) == ((1, 2, 1), 1)
    flow.ask("reset", "--to", "end", "--execute")
    assert flow.lag() == (2, 2, 0)
    assert "number of a version" in flow.refused("reset", "--to", A_DAY_AGO, "--execute")
