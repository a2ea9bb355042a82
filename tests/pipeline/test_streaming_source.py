"""`readStream.format("headrace")`: every record once, query after query of one checkpoint."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.datasource import StreamReader, Task
from headrace.pipeline.source.options import read_options
from headrace.pipeline.spark.session import check_java
from headrace.pipeline.spark.socket_directory import own_socket_directory
from headrace.pipeline.spark.startup_settings import JAVAS_THAT_FORK, RENAMING
from support.pipelines.delta_pipeline import Record, Send
from support.wire.topics import MakeTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

DEADLINE_S = 120


def numbered(partition: int, numbers: range) -> list[Record]:
    return [(partition, None, str(number).encode()) for number in numbers]


@pytest.fixture
def stream(spark: "SparkSession", bootstrap: str, tmp_path: Path) -> "Stream":
    return Stream(spark, bootstrap, tmp_path)


class Stream:
    """Queries that resume where the previous one stopped, into one folder."""

    def __init__(self, spark: "SparkSession", bootstrap: str, home: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._home = home

    def run(self, topic: str, **options: str) -> Sequence[Any]:
        """Reads what there is; the progress of each batch."""
        query = (
            self._spark.readStream.format("headrace")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self._home / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self._home / "out"))
        )
        assert query.awaitTermination(DEADLINE_S)
        return query.recentProgress

    def read(self) -> list[tuple[int, int, bytes]]:
        rows = self._spark.read.parquet(str(self._home / "out"))
        return sorted((row.partition, row.offset, bytes(row.value)) for row in rows.collect())


def test_queries_of_one_checkpoint_read_every_record_once(
    stream: Stream, make_topic: MakeTopic, send: Send
) -> None:
    topic = make_topic(2)
    send(topic, [*numbered(0, range(50)), *numbered(1, range(30))])
    stream.run(topic)
    send(topic, numbered(1, range(30, 40)))
    stream.run(topic)
    assert stream.read() == [
        *((0, at, str(at).encode()) for at in range(50)),
        *((1, at, str(at).encode()) for at in range(40)),
    ]


def test_the_progress_reports_the_remaining_records(
    stream: Stream, make_topic: MakeTopic, send: Send
) -> None:
    """Every batch of a query reports the end offset at the query's start."""
    topic = make_topic(1)
    send(topic, numbered(0, range(40)))
    batches = stream.run(topic, maxOffsetsPerTrigger="25")
    told = [
        (json.loads(source["endOffset"]), json.loads(source["latestOffset"]))
        for batch in batches
        for source in batch["sources"]
        if batch["numInputRows"]
    ]
    end = {topic: {"0": 40}}
    assert told == [({topic: {"0": 25}}, end), (end, end)]


def test_a_query_from_the_latest_offsets_starts_once(
    bootstrap: str, make_topic: MakeTopic, send: Send
) -> None:
    """Spark asks for the start twice; a record in between belongs to the query."""
    topic = make_topic(1)
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "latest"}
    reader = StreamReader(read_options(given, streaming=True))
    send(topic, numbered(0, range(3)))
    start = reader.initialOffset()
    send(topic, numbered(0, range(3, 5)))
    end = reader.latestOffset(start, ReadAllAvailable())
    tasks = reader.partitions(reader.initialOffset(), end)
    assert [task.wanted for task in tasks if isinstance(task, Task)] == [
        (OffsetRange(topic, 0, 3, 5),)
    ]


def test_an_unfinished_first_batch_is_read_again_after_a_crash(
    bootstrap: str, make_topic: MakeTopic, send: Send
) -> None:
    """Spark has stored the batch's end and asks again for its start."""
    topic = make_topic(2)
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "latest"}
    reader = StreamReader(read_options(given, streaming=True))
    send(topic, numbered(0, range(3)))
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start  # no batch without records
    send(topic, numbered(0, range(3, 5)))
    noted = json.dumps(reader.latestOffset(start, ReadAllAvailable()))
    send(topic, numbered(0, range(5, 9)))
    again = StreamReader(read_options(given, streaming=True))
    end = json.loads(noted)
    tasks = again.partitions(again.initialOffset(), end)
    assert [task.wanted for task in tasks if isinstance(task, Task)] == [
        (OffsetRange(topic, 0, 3, 5),)
    ]
    after = again.latestOffset(end, ReadAllAvailable())
    assert after == {topic: {"0": 9, "1": 0}}
    tasks = again.partitions(end, after)
    assert [task.wanted for task in tasks if isinstance(task, Task)] == [
        (OffsetRange(topic, 0, 5, 9),)
    ]


def test_python_processes_of_spark_do_not_read_its_jar(spark: "SparkSession") -> None:
    """Reading the jar's directory takes longer than starting a process."""

    def archives(_: object) -> list[str]:
        import sys
        import zipimport

        found = sys.path_importer_cache.items()
        return [path for path, finder in found if isinstance(finder, zipimport.zipimporter)]

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(archives).collect() == []


def test_python_sockets_are_in_a_directory_that_the_next_session_cleans(
    spark: "SparkSession",
) -> None:
    spark.sparkContext.parallelize([0], 1).map(str).collect()
    home = own_socket_directory()
    assert home is not None
    assert list(home.glob(".*.sock"))


def test_a_checkpoint_is_written_without_a_process_per_file(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Hadoop's rename starts `readlink` four times for each file."""
    jvm: Any = spark._jvm
    streaming = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    session: Any = spark._jsparkSession
    conf = session.sessionState().newHadoopConf()
    path = jvm.org.apache.hadoop.fs.Path(str(tmp_path))
    manager = streaming.CheckpointFileManager.create(path, conf)
    assert manager.getClass().getName() == RENAMING
    if sys.platform == "linux" and check_java() in JAVAS_THAT_FORK:
        assert jvm.System.getProperty("jdk.lang.Process.launchMechanism") == "VFORK"
