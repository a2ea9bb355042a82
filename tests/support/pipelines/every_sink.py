"""One spec with a flow into every kind of sink, its input, and the expected output.

The spec is like a user's: relative paths, and a Python step in its own file. `check` verifies that
each record is in its sink once, for any way to run the spec and after any kill.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyarrow import fs
from pyiceberg.catalog import load_catalog

from headrace.pipeline.sinks.file_stores import open_store
from headrace.pipeline.sinks.parquet_sink import parquet_files
from support.pipelines.driver import Driver
from support.pipelines.outputs import Letter, Row, json_values, letters
from support.wire.connection import Wire
from support.wire.topics import create_topic

PARTITIONS: Final = 4
BROKEN_EACH: Final = 20
KEYS: Final = 30
LINES_PER_FILE: Final = 50
RUN_DEADLINE_S: Final = 1200.0
BROKEN: Final = b'{"id": '
SQL: Final = "SELECT id, amount, _record.partition AS p, _record.offset AS o FROM source"
STEPS: Final = """
from pyspark.sql import functions as F

RATE = 2

def doubled(amount):
    return amount * RATE

def step(rows):
    return rows.withColumn("amount", F.udf(doubled, "double")("amount"))
"""
TABLES: Final = ("delta", "merge", "iceberg", "parquet")
ALL: Final = (*TABLES, "plain", "topic", "files")
"""`plain` has no steps: the tasks that read its records also write them."""


@dataclass(frozen=True)
class Store:
    """The place of the tables, and the options to read them with other tools."""

    base: str
    options: Mapping[str, str] = field(default_factory=dict)
    """In the form for the spec."""
    delta: Mapping[str, str] = field(default_factory=dict)
    """In the form for deltalake."""
    iceberg: Mapping[str, str] = field(default_factory=dict)
    """In the form for pyiceberg, including the catalog."""


class EverySink:
    """A spec, its source topic and its source folder."""

    def __init__(
        self,
        home: Path,
        bootstrap: str,
        name: str,
        *,
        flows: Sequence[str] = ALL,
        store: Store | None = None,
        spark: Mapping[str, str] | None = None,
        batch_records: int = 400,
        source: Mapping[str, object] | None = None,
    ) -> None:
        self.home = home
        self.name = name
        self.flows = flows
        self._bootstrap = bootstrap
        self._store = store or Store("lake")
        self._good: list[tuple[int, int]] = []
        self._numbers: list[int] = []
        self._bad: list[tuple[int, int]] = []
        self._ends = [0] * PARTITIONS
        self._newest: dict[int, float] = {}
        self._lines = 0
        self._runs = 0
        (home / "in").mkdir(parents=True)
        (home / "steps.py").write_text(STEPS)
        self.spec = home / "spec.yaml"
        self.spec.write_text(json.dumps(self._spec(batch_records, spark or {}, source or {})))
        with Wire(bootstrap) as wire:
            for topic in (name, f"{name}.out", f"{name}.files"):
                create_topic(wire, topic, PARTITIONS)

    # --- the spec -------------------------------------------------------------------------------

    def _spec(
        self, batch_records: int, spark: Mapping[str, str], source: Mapping[str, object]
    ) -> dict[str, object]:
        return {
            "version": 1,
            "pipeline": self.name,
            "checkpoint": "checkpoint",
            "spark": dict(spark),
            "flows": [self._flow(each, batch_records, source) for each in self.flows],
        }

    def _flow(
        self, kind: str, batch_records: int, source: Mapping[str, object]
    ) -> dict[str, object]:
        base, options = self._store.base, dict(self._store.options)
        if kind == "files":
            return {
                "name": kind,
                "source": {
                    "files": "in/*.json",
                    "format": "json",
                    "schema": "id BIGINT",
                    "max_files_per_batch": 1,
                },
                "sink": {"format": "topic", "topic": f"{self.name}.files", "key": ["id"]},
            }
        sinks: dict[str, dict[str, object]] = {
            "delta": {"format": "delta", "table": f"{base}/delta", "storage_options": options},
            "plain": {"format": "delta", "table": f"{base}/plain", "storage_options": options},
            "merge": {
                "format": "delta",
                "table": f"{base}/merged",
                "mode": "merge",
                "key": ["k"],
                "storage_options": options,
            },
            "iceberg": {
                "format": "iceberg",
                "table": "shop.orders",
                "warehouse": f"{base}/warehouse",
                "storage_options": options,
            },
            "parquet": {
                "format": "parquet",
                "table": f"{base}/parquet",
                "partition_by": ["p"],
                "storage_options": options,
            },
            "topic": {"format": "topic", "topic": f"{self.name}.out", "key": ["id"]},
        }
        sql = f"SELECT id % {KEYS} AS k, amount FROM source" if kind == "merge" else SQL
        return {
            "name": kind,
            "source": {
                "topics": [self.name],
                "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
                "max_records_per_batch": batch_records,
                **source,
            },
            "transform": [{"sql": sql}, {"python": "steps.py:step"}] if kind != "plain" else [],
            "sink": sinks[kind],
            "dead_letter": {"topic": f"{self.name}.dlq"},
        }

    # --- feeding and running --------------------------------------------------------------------

    def feed(self, records: int, files: int = 1) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 20})
        for _ in range(records):
            number = sum(self._ends)
            # All records of a key are in one partition: it defines which one is the newest.
            partition = number % KEYS % PARTITIONS
            place = (partition, self._ends[partition])
            self._ends[partition] += 1
            if number % BROKEN_EACH:
                value = json.dumps({"id": number, "amount": number / 2}).encode()
                self._good.append(place)
                self._numbers.append(number)
                self._newest[number % KEYS] = float(number)
            else:
                value = BROKEN
                self._bad.append(place)
            producer.produce(self.name, value, partition=partition)
        assert producer.flush(120) == 0
        for _ in range(files):
            numbers = range(self._lines, self._lines + LINES_PER_FILE)
            part = self.home / "in" / f".{self._lines}.part"
            part.write_text("".join(f'{{"id": {number}}}\n' for number in numbers))
            part.rename(self.home / "in" / f"{self._lines:08}.json")
            self._lines += LINES_PER_FILE

    @contextmanager
    def running(self, master: str) -> Iterator[Driver]:
        """A run that ends when it has caught up; at the end of the block it is killed."""
        self._runs += 1
        driver = Driver(
            self.spec,
            self._bootstrap,
            self.home / f"run-{self._runs}",
            options=["--master", master, "--until-caught-up"],
        )
        try:
            yield driver
        finally:
            driver.kill(tree=True)

    def run(self, master: str, then: Callable[[], None] | None = None, batches: int = 3) -> Driver:
        """Runs until it has caught up; calls `then` after `batches` batches."""
        with self.running(master) as driver:
            if then is not None:
                driver.await_events("batch", batches, RUN_DEADLINE_S)
                then()
            assert driver.wait(RUN_DEADLINE_S) == 0, driver.tail()
        return driver

    # --- expected output ------------------------------------------------------------------------

    def check(self) -> None:
        """All input is in every sink once, and nothing else."""
        for flow in self.flows:
            if flow == "merge":
                newest = {row["k"]: row["amount"] for row in self._delta("merged")}
                assert newest == self._newest, flow
                assert len(self._delta("merged")) == len(newest), flow
            elif flow == "plain":
                rows = sorted((row["id"], row["amount"]) for row in self._delta("plain"))
                assert rows == [(number, number / 2) for number in self._numbers], flow
            elif flow == "files":
                found = sorted(
                    row["id"] for row in json_values(self._bootstrap, f"{self.name}.files")
                )
                assert found == list(range(self._lines)), flow
            else:
                places = sorted((row["p"], row["o"]) for row in self._rows(flow))
                assert places == sorted(self._good), flow
                assert all(row["amount"] == row["id"] for row in self._rows(flow)), flow
        wanted = [
            Letter(f"{self.name}.{flow}", partition, offset, BROKEN)
            for flow in self.flows
            if flow != "files"
            for partition, offset in self._bad
        ]
        if wanted:
            assert letters(self._bootstrap, f"{self.name}.dlq") == sorted(wanted)

    def _rows(self, flow: str) -> list[Row]:
        match flow:
            case "delta":
                return self._delta("delta")
            case "iceberg":
                found: list[Row] = self._iceberg()
                return found
            case "parquet":
                return self._parquet()
        return json_values(self._bootstrap, f"{self.name}.out")

    def _at(self, name: str) -> str:
        base = self._store.base
        return f"{base}/{name}" if "://" in base else str(self.home / base / name)

    def _delta(self, name: str) -> list[Row]:
        table = DeltaTable(self._at(name), storage_options=dict(self._store.delta) or None)
        found: list[Row] = table.to_pyarrow_table().to_pylist()
        return found

    def _iceberg(self) -> list[Row]:
        warehouse = self._at("warehouse")
        properties = self._store.iceberg or {
            "type": "sql",
            "uri": f"sqlite:///{warehouse}/catalog.db",
            "warehouse": f"file://{warehouse}",
        }
        catalog = load_catalog("headrace", **dict(properties))
        found: list[Row] = catalog.load_table("shop.orders").scan().to_arrow().to_pylist()
        return found

    def _parquet(self) -> list[Row]:
        folder = self._at("parquet")
        store, base = open_store(folder, self._store.delta)
        files = parquet_files(folder, dict(self._store.delta))
        there = store.get_file_info(fs.FileSelector(base, recursive=True))
        # A reader of every file in the folder gets the same rows.
        assert sorted(files) == sorted(e.path for e in there if e.path.endswith(".parquet"))
        rows = ds.dataset(
            files,
            filesystem=store,
            format="parquet",
            partitioning="hive",
            partition_base_dir=base,
        )
        found: list[Row] = rows.to_table().to_pylist()
        return found
