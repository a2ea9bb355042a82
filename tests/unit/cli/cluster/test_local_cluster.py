"""The ports of a local cluster."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.cluster.local_cluster import LocalCluster, LocalClusterPlan


def test_each_broker_has_its_own_http_port(tmp_path: Path) -> None:
    cluster = LocalCluster(LocalClusterPlan(tmp_path, 3, 19092, http=19644))
    assert [broker.http_port for broker in cluster.brokers] == [19644, 19645, 19646]
    assert cluster.http_urls[2] == "http://127.0.0.1:19646"


def test_free_ports_are_all_different(tmp_path: Path) -> None:
    cluster = LocalCluster(LocalClusterPlan(tmp_path, 5, 0, http=0))
    ports = [port for broker in cluster.brokers for port in (broker.port, broker.http_port)]
    assert len(set(ports)) == 10


def test_without_http_there_is_no_port(tmp_path: Path) -> None:
    cluster = LocalCluster(LocalClusterPlan(tmp_path, 2, 0))
    assert (cluster.brokers[0].http_port, cluster.http_urls) == (None, [])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--port", "9092", "--http", "9094"], "overlap"),
        (["--http", "65535"], "need ports above"),
        (["--set", "headrace.http.listener=http://:1"], "--http"),
    ],
)
def test_ports_that_cannot_work_are_usage_errors(words: list[str], reason: str) -> None:
    result = CliRunner().invoke(app, ["cluster", "up", *words])
    assert result.exit_code == 2
    assert reason in result.output
