"""`headrace cluster` told nonsense: it says what was wrong, and does nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import Cluster
from support.cli import Cli


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        cluster.headrace.create_topic("orders")
        yield cluster


@pytest.fixture
def cli(cluster: Cluster, tmp_path: Path) -> Cli:
    return Cli(cluster.bootstrap_servers, tmp_path)


def test_partitions_without_a_topic_are_not_taken_for_all(cli: Cli) -> None:
    """They were passed over: all partitions of the cluster got an election, even an unclean one."""
    ended = cli("cluster", "elect", "--partitions", "0", "--unclean", "--yes")
    assert ended.code == 2
    assert "name the topic" in ended.stderr


def test_a_plan_with_a_broker_that_nobody_knows_is_refused_before_it_is_shown(
    cli: Cli, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    item = {"topic": "orders", "partition": 0, "replicas": [1, 9]}
    plan.write_text(json.dumps({"version": 1, "partitions": [item]}))
    ended = cli("cluster", "reassign", "--plan", str(plan))
    assert ended.code == 4
    assert "broker 9" in ended.stderr and "there are: 1, 2" in ended.stderr


@pytest.mark.parametrize("what", ["--status", "--cancel"])
def test_moves_of_a_topic_that_does_not_exist_are_asked_for_in_vain(cli: Cli, what: str) -> None:
    ended = cli("cluster", "reassign", what, "--topic", "order")
    assert ended.code == 4
    assert "did you mean 'orders'" in ended.stderr


def test_a_range_of_brokers_that_goes_backwards_is_said_so(cli: Cli) -> None:
    ended = cli("cluster", "reassign", "--to", "2-1")
    assert ended.code == 2
    assert "write 1-2" in ended.stderr
