"""The age of a record when the table shows it, with a pipeline in a typical setup.

`headrace pipeline run` with a trigger of one second; orders at a steady rate, each with its send
time. A row counts when its commit is in the table's log: the age is the commit file's time minus
the row's. The rows of the first seconds are left out.
"""

import json
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from bench.peers.headrace import PROGRAM
from bench.pipelines import orders
from bench.pipelines.stage import PARTITIONS, Stage

TOPIC = "latency"
TRIGGER = "1s"
LEFT_OUT_S = 5.0
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
LOOK_S = 0.2
MS = 1000


class LatencyError(Exception):
    """The pipeline did not start, or did not write all records to the table."""


def commits(table: Path) -> Iterator[tuple[float, list[Path]]]:
    """Each commit that added files: its time in milliseconds, and the files."""
    for entry in sorted((table / "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        added = [table / line["add"]["path"] for line in lines if "add" in line]
        if added:
            yield entry.stat().st_mtime_ns / 1e6, added


def ages_ms(table: Path, since_ms: float) -> list[float]:
    """The age at commit of each row that was sent since then."""
    return [
        committed - sent
        for committed, files in commits(table)
        for file in files
        for sent in pq.read_table(file, columns=["id"])["id"].to_pylist()
        if sent >= since_ms
    ]


def measure(stage: Stage, rate: int, seconds: float) -> dict[str, float]:
    """The median and 99th percentile of the ages, in seconds."""
    home = stage.home / "latency"
    home.mkdir()
    stage.fill_orders(TOPIC, 0)
    spec = home / "pipeline.yaml"
    spec.write_text(json.dumps(pipeline(home)))
    command = [str(PROGRAM), "pipeline", "run", str(spec)]
    with (home / "run.log").open("wb") as log:
        running = subprocess.Popen(
            [*command, "--bootstrap", stage.broker.bootstrap, "--master", "local[2]"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home,
        )
        try:
            return _measure(stage, running, home, rate, seconds)
        finally:
            running.send_signal(signal.SIGTERM)
            try:
                running.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                running.kill()
            stage.drop(TOPIC)


def pipeline(home: Path) -> dict[str, object]:
    return {
        "pipeline": "latency",
        "source": {"topics": [TOPIC], "value": {"format": "json", "schema": orders.SCHEMA}},
        "sink": {"format": "delta", "table": str(home / "table")},
        "trigger": TRIGGER,
        "checkpoint": str(home / "checkpoint"),
    }


def _measure(
    stage: Stage, running: subprocess.Popen[bytes], home: Path, rate: int, seconds: float
) -> dict[str, float]:
    bootstrap, table = stage.broker.bootstrap, home / "table"
    orders.produce_paced(bootstrap, TOPIC, PARTITIONS, rate, 0.1)  # the table appears
    _await_rows(running, home, 1)
    began_ms = time.time() * MS
    orders.produce_paced(bootstrap, TOPIC, PARTITIONS, rate, seconds + LEFT_OUT_S)
    since_ms = began_ms + LEFT_OUT_S * MS
    _await_rows(running, home, int(rate * (seconds + LEFT_OUT_S)) + 1)
    ages = sorted(age / MS for age in ages_ms(table, since_ms))
    return {"median_s": statistics.median(ages), "p99_s": ages[int(len(ages) * 0.99)]}


def _await_rows(running: subprocess.Popen[bytes], home: Path, count: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and running.poll() is None:
        files = [file for _, added in commits(home / "table") for file in added]
        if sum(pq.read_metadata(file).num_rows for file in files) >= count:
            return
        time.sleep(LOOK_S)
    raise LatencyError(f"{count} rows did not land:\n{(home / 'run.log').read_text()[-3000:]}")
