"""Pipelines are exact on a cluster whose leaders crash and whose brokers restart."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.testing import Cluster
from support.clients.steady_load import SteadyLoad
from support.pipelines.delta_pipeline import MakePipeline, Pipeline
from support.waiting import wait_for

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 3
DEADLINE_S = 120.0
PACE = 300
RECORDS_PER_BATCH = 2000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def bootstrap(cluster: Cluster) -> str:
    return cluster.bootstrap_servers


def order(number: int) -> bytes:
    return json.dumps({"id": number, "amount": number / 2}).encode()


def source(topic: str) -> dict[str, object]:
    return {
        "topics": [topic],
        "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
        "max_records_per_batch": RECORDS_PER_BATCH,
    }


class Run:
    """A pipeline that runs repeatedly during faults and once more afterwards."""

    def __init__(self, cluster: Cluster, topic: str, pipeline: Pipeline) -> None:
        self._cluster = cluster
        self._topic = topic
        self._pipeline = pipeline
        self._load = SteadyLoad(cluster.bootstrap_servers, topic, PARTITIONS, order)

    def through(self, trouble: Callable[["Run"], None]) -> int:
        """How many records each partition has at the end."""
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(self._make_trouble, trouble)
            while not done.done():
                assert self._pipeline.run() == []
            done.result()
        assert self._load.errors == []
        assert self._pipeline.run() == []
        return self._load.sent

    def _make_trouble(self, trouble: Callable[["Run"], None]) -> None:
        with self._load:
            trouble(self)

    def rolling_restart(self) -> None:
        for broker in (1, 2, 3):
            self._go_on()
            self._cluster.restart(broker)
            self._cluster.wait_until_healthy()
        self._go_on()

    def failovers(self) -> None:
        for chosen in (lambda: self._cluster.leader(self._topic), lambda: self._cluster.controller):
            self._go_on()
            broker = chosen() or 1
            self._cluster.kill(broker)
            self._go_on()
            self._cluster.restart(broker)
            self._cluster.wait_until_healthy()
        self._go_on()

    def _go_on(self) -> None:
        """Waits until more records are sent and more are in the sink."""
        acked, batches = self._load.acked, len(self._pipeline.batches())
        wait_for(
            lambda: self._load.acked > acked + PACE and len(self._pipeline.batches()) > batches,
            "records come and land",
            deadline_s=DEADLINE_S,
        )


@pytest.mark.parametrize("trouble", [Run.failovers, Run.rolling_restart])
def test_a_topic_is_written_to_a_table_exactly_once(
    cluster: Cluster, make_pipeline: MakePipeline, trouble: Callable[[Run], None]
) -> None:
    topic = cluster.headrace.create_topic(partitions=PARTITIONS)
    pipeline = make_pipeline(topic, source=source(topic))
    count = Run(cluster, topic, pipeline).through(trouble)
    assert pipeline.places() == [(part, at) for part in range(PARTITIONS) for at in range(count)]
    assert all(row["id"] == row["o"] for row in pipeline.rows())


def test_a_topic_is_copied_exactly_once_through_a_rolling_restart(
    cluster: Cluster, make_pipeline: MakePipeline
) -> None:
    topic = cluster.headrace.create_topic(partitions=PARTITIONS)
    out = cluster.headrace.create_topic(partitions=PARTITIONS)
    pipeline = make_pipeline(
        topic,
        source=source(topic),
        transform=[{"sql": "SELECT id, _record.partition AS p FROM source"}],
        sink={"format": "topic", "topic": out, "key": ["id"]},
    )
    count = Run(cluster, topic, pipeline).through(Run.rolling_restart)
    cluster.headrace.consume(out, count * PARTITIONS, read_committed=True, timeout_s=DEADLINE_S)
    landed = [
        json.loads(each.value or b"")
        for each in cluster.headrace.consume(out, read_committed=True, timeout_s=DEADLINE_S)
    ]
    found = sorted((row["p"], row["id"]) for row in landed)
    assert found == [(part, number) for part in range(PARTITIONS) for number in range(count)]
