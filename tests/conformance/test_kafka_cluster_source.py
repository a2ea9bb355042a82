"""The source on three nodes of Apache Kafka: leaders change and crash during the read.

The read returns the topic exactly: every offset once, with its value. Records are released
through a gate, so that the change happens in the middle of a read.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.pipeline.application.application import Application, RunSettings
from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.record_reader import read_range
from headrace.pipeline.source.settings import ReadSettings
from support.brokers.replicated_topics import ReplicatedTopic, value_at
from support.clients.java import KafkaCluster
from support.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 3
RECORDS = 12_000
FETCH_BYTES = 100_000
DEADLINE_S = 240.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def filled(cluster: KafkaCluster) -> ReplicatedTopic:
    return ReplicatedTopic(cluster, PARTITIONS, RECORDS)


@pytest.fixture
def topic(filled: ReplicatedTopic) -> ReplicatedTopic:
    """With all nodes up and every replica in sync."""
    filled.heal()
    return filled


# --- without Spark ------------------------------------------------------------------------------


class Read:
    """Partition 0, taken chunk by chunk."""

    def __init__(self, topic: ReplicatedTopic, bootstrap: str, **settings: object) -> None:
        wanted = OffsetRange(topic.name, 0, 0, topic.records)
        read = ReadSettings(bootstrap, fetch_bytes=FETCH_BYTES)._replace(**settings)
        self._chunks = read_range(wanted, read)
        self._records = topic.records
        self.offsets: list[int] = []

    def on(self, until: int) -> None:
        """Reads until it has at least this number of records."""
        while len(self.offsets) < until:
            chunk = next(self._chunks)
            offsets = chunk.offset.to_pylist()
            assert chunk.value.to_pylist() == [value_at(0, each) for each in offsets]
            self.offsets += offsets

    def finish(self) -> None:
        self.on(self._records)
        assert next(self._chunks, None) is None
        assert self.offsets == list(range(self._records))


def test_a_read_survives_every_kind_of_leader_change(
    topic: ReplicatedTopic, cluster: KafkaCluster
) -> None:
    read = Read(topic, cluster.bootstrap_servers)
    read.on(1000)
    stopped = topic.leader()
    cluster.nodes[stopped].stop()  # hands its partitions over
    read.on(3000)
    topic.heal()
    topic.prefer()  # leaders change without a crash
    read.on(5000)
    killed = topic.leader()
    cluster.nodes[killed].kill()
    read.on(9000)
    topic.wait_for_leader(lambda leader: leader != killed, "another leads")
    read.finish()


def test_a_silent_leader_is_replaced_by_the_next_one(
    topic: ReplicatedTopic, cluster: KafkaCluster
) -> None:
    read = Read(topic, cluster.bootstrap_servers, request_timeout_s=8.0)
    read.on(1000)
    silent = cluster.nodes[topic.leader()]
    silent.pause()
    try:
        read.finish()
    finally:
        silent.resume()


def test_a_replica_in_the_readers_rack_is_read_and_may_crash(
    topic: ReplicatedTopic, cluster: KafkaCluster
) -> None:
    leader = topic.leader()
    follower = next(each for each in cluster.nodes if each != leader)
    read = Read(topic, cluster.bootstrap_servers, rack=f"r{follower}")
    read.on(2000)
    cluster.nodes[follower].kill()
    read.finish()


def test_one_live_bootstrap_server_is_enough(topic: ReplicatedTopic, cluster: KafkaCluster) -> None:
    leader = topic.leader()
    cluster.nodes[leader].kill()
    Read(topic, cluster.bootstrap_servers).finish()


# --- through Spark ------------------------------------------------------------------------------


class Gate:
    """Lets each task take a little, and the rest when it is opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        folder.mkdir()

    def function(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """For `mapInArrow`; a function in a function reaches workers that lack this module."""

        def wait(
            batches: Iterator[pa.RecordBatch], folder: str = self.folder
        ) -> Iterator[pa.RecordBatch]:
            import pathlib
            import time

            for batch in batches:
                yield batch
                if batch.num_rows:
                    place = batch.column(batch.schema.get_field_index("partition"))[0].as_py()
                    (pathlib.Path(folder) / f"reading-{place}").touch()
                    while not (pathlib.Path(folder) / "open").exists():
                        time.sleep(0.05)

        return wait

    def is_reached(self) -> bool:
        return (Path(self.folder) / "reading-0").exists()

    def open(self) -> None:
        (Path(self.folder) / "open").touch()


def kill_the_leader_within(
    gate: Gate, topic: ReplicatedTopic, cluster: KafkaCluster, work: Callable[[], None]
) -> None:
    """Runs `work`, and kills the leader of partition 0 when it has begun to read it."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        try:
            wait_for(
                lambda: gate.is_reached() or done.done(),
                "partition 0 is being read",
                deadline_s=DEADLINE_S,
            )
            if not done.done():
                cluster.nodes[topic.leader()].kill()
        finally:
            gate.open()
        done.result(timeout=DEADLINE_S)
    assert gate.is_reached(), "the work ended before anything was read"


def options(topic: ReplicatedTopic, cluster: KafkaCluster) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic.name,
        "startingOffsets": "earliest",
        "kafka.max.partition.fetch.bytes": str(FETCH_BYTES),
    }


def is_exact(rows: "DataFrame", topic: ReplicatedTopic) -> bool:
    """Every offset of every partition once, each with the value that was sent there."""
    found = rows.selectExpr(
        "partition",
        "offset",
        "split_part(cast(value AS string), ':', 1) = partition "
        "AND split_part(cast(value AS string), ':', 2) = offset AS right",
    ).collect()
    places = Counter((row["partition"], row["offset"]) for row in found)
    wanted = [(each, at) for each in range(topic.partitions) for at in range(topic.records)]
    return places == Counter(wanted) and all(row["right"] for row in found)


def test_a_batch_read_is_exact_after_its_leader_is_killed(
    topic: ReplicatedTopic, cluster: KafkaCluster, spark: "SparkSession", tmp_path: Path
) -> None:
    gate, out = Gate(tmp_path / "gate"), str(tmp_path / "out")
    read = spark.read.format("headrace").options(**options(topic, cluster)).load()
    rows = read.mapInArrow(gate.function(), read.schema)
    kill_the_leader_within(gate, topic, cluster, lambda: rows.write.parquet(out))
    assert is_exact(spark.read.parquet(out), topic)


def test_a_stream_is_exact_after_its_leader_is_killed(
    topic: ReplicatedTopic, cluster: KafkaCluster, spark: "SparkSession", tmp_path: Path
) -> None:
    gate, out = Gate(tmp_path / "gate"), str(tmp_path / "out")
    read = (
        spark.readStream.format("headrace")
        .options(**options(topic, cluster), maxOffsetsPerTrigger=str(2 * RECORDS))
        .load()
    )
    rows = read.mapInArrow(gate.function(), read.schema)

    def work() -> None:
        query = (
            rows.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(out)
        )
        assert query.awaitTermination(DEADLINE_S)

    kill_the_leader_within(gate, topic, cluster, work)
    assert is_exact(spark.read.parquet(out), topic)


STEP = """
import pathlib, time

def gated(rows):
    def wait(batches, folder={folder!r}):
        for batch in batches:
            yield batch
            if batch.num_rows:
                (pathlib.Path(folder) / "reading-0").touch()
                while not (pathlib.Path(folder) / "open").exists():
                    time.sleep(0.05)
    return rows.mapInArrow(wait, rows.schema)
"""


def test_a_pipeline_is_exact_after_its_leader_is_killed(
    topic: ReplicatedTopic, cluster: KafkaCluster, spark: "SparkSession", tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    step = tmp_path / "step.py"
    step.write_text(STEP.format(folder=gate.folder))
    table = tmp_path / "table"
    spec = {
        "pipeline": topic.name,
        "source": {
            "topics": [topic.name],
            "value": {"format": "raw"},
            "max_records_per_batch": 2 * RECORDS,
        },
        "transform": [
            {"sql": "SELECT value, _record.partition, _record.offset FROM source"},
            {"python": f"{step}:gated"},
        ],
        "sink": {"format": "delta", "table": str(table)},
        "kafka": {"max.partition.fetch.bytes": str(FETCH_BYTES)},
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": "100ms",
    }
    kafka = {"bootstrap.servers": cluster.bootstrap_servers}
    settings = RunSettings(kafka=kafka, until_caught_up=True)

    def work() -> None:
        application = Application(parse_spec(json.dumps(spec)), settings, spark=spark)
        assert application.run() == []

    kill_the_leader_within(gate, topic, cluster, work)
    found = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    places = Counter((row["partition"], row["offset"]) for row in found)
    wanted = [(each, at) for each in range(topic.partitions) for at in range(topic.records)]
    assert places == Counter(wanted)
    assert all(row["value"] == value_at(row["partition"], row["offset"]) for row in found)
