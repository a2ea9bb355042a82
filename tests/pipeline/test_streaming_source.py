"""`readStream.format("headrace")`: every record once, query after query of one checkpoint."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.pipelines import Record, Send
from support.topics import MakeTopic

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
    """Queries that go on where the one before them stopped, into one folder."""

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


def test_the_progress_tells_what_is_still_to_be_read(
    stream: Stream, make_topic: MakeTopic, send: Send
) -> None:
    """The end is that of the moment when the query was started, for every batch of it."""
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
