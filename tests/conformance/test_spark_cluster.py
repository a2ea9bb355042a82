"""Pipelines on a standalone Spark cluster: a master and two workers from PySpark's own jars.

The executors run in other processes and other folders than the driver. One of the workers is
killed with its executors during batches.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pipelines.every_sink import EverySink
from support.pipelines.spark_cluster import SMALL, SparkCluster

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark")) as started:
        yield started


def test_every_sink_is_exact_even_if_a_worker_is_killed(
    cluster: SparkCluster, bootstrap: str, name: str, tmp_path: Path
) -> None:
    flows = EverySink(tmp_path / "spec", bootstrap, name, spark=SMALL)
    flows.feed(1600, files=2)
    flows.run(cluster.url, cluster.kill_worker)
    flows.check()
    flows.feed(200)
    flows.run(cluster.url)  # on the worker that is left
    flows.check()
