"""One Spark session for all tests of a worker: starting one takes as long as running them all.

Modules here are marked `xdist_group("spark")`, which keeps them in one worker.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.spark.session import open_session
from support.pipelines.delta_pipeline import MakePipeline, Pipeline, Record, Send
from support.pipelines.driver import SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL = "SELECT id, amount, _record.partition AS p, _record.offset AS o FROM source"


HERE = Path(__file__).parent
TIMEOUT_S = 900
"""Whichever test comes first waits for the session and for Spark's first job as well."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    session = open_session(
        "tests",
        master="local[2]",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "2g",  # one session serves all tests, one with a 100 MB record
            **SHORT_LIVED,
        },
        log=tmp_path_factory.mktemp("spark") / "spark.log",
    )
    yield session
    session.stop()


@pytest.fixture
def send(bootstrap: str) -> Send:
    """Produces (partition, key, value) records and waits for them."""

    def produce(topic: str, records: Sequence[Record]) -> None:
        producer = Producer({"bootstrap.servers": bootstrap})
        for partition, key, value in records:
            producer.produce(topic, value, key, partition)
        assert producer.flush(60) == 0

    return produce


@pytest.fixture
def make_pipeline(
    tmp_path: Path, bootstrap: str, spark: "SparkSession", new_name: Callable[[], str]
) -> Iterator[MakePipeline]:
    """A pipeline of JSON orders; keywords replace or add top-level parts of the spec."""
    made: list[Pipeline] = []

    def make(topic: str, **changes: object) -> Pipeline:
        table = tmp_path / "table"
        spec: dict[str, object] = {
            "pipeline": new_name(),
            "source": {
                "topics": [topic],
                "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
            },
            "transform": [{"sql": SQL}],
            "sink": {"format": "delta", "table": str(table)},
            "trigger": "100ms",
            "checkpoint": str(tmp_path / "checkpoint"),
        }
        text = json.dumps({**spec, **changes})  # JSON is YAML
        made.append(Pipeline(parse_spec(text), table, bootstrap, spark))
        return made[-1]

    yield make
    for pipeline in made:
        pipeline.close()
