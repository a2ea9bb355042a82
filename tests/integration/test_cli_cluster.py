"""`headrace cluster` with invalid arguments reports the error and changes nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import Cluster
from support.cli.command import Cli


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        cluster.headrace.create_topic("orders")
        yield cluster


@pytest.fixture
def cli(cluster: Cluster, tmp_path: Path) -> Cli:
    return Cli(cluster.bootstrap_servers, tmp_path)


def test_partitions_without_a_topic_are_rejected(cli: Cli) -> None:
    """Ignoring them would start an election for every partition, even an unclean one."""
    ended = cli("cluster", "elect", "--partitions", "0", "--unclean", "--execute")
    assert ended.code == 2
    assert "name the topic" in ended.stderr


def test_a_plan_with_an_unknown_broker_is_rejected_before_it_is_shown(
    cli: Cli, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    item = {"topic": "orders", "partition": 0, "replicas": [1, 9]}
    plan.write_text(json.dumps({"version": 1, "partitions": [item]}))
    ended = cli("cluster", "reassign", "--plan", str(plan))
    assert ended.code == 4
    assert "broker 9" in ended.stderr and "known: 1, 2" in ended.stderr


@pytest.mark.parametrize("what", ["--status", "--cancel"])
def test_listing_moves_of_a_missing_topic_is_an_error(cli: Cli, what: str) -> None:
    ended = cli("cluster", "reassign", what, "--topic", "order")
    assert ended.code == 4
    assert "Did you mean 'orders'" in ended.stderr


def test_a_reversed_broker_range_is_reported(cli: Cli) -> None:
    ended = cli("cluster", "reassign", "--to", "2-1")
    assert ended.code == 2
    assert "write 1-2" in ended.stderr


def test_unknown_brokers_are_distinguished_from_brokers_that_are_down(tmp_path: Path) -> None:
    with Cluster(2) as cluster:
        cli = Cli(cluster.bootstrap_servers, tmp_path)
        cluster.headrace.create_topic("orders", partitions=2)
        cluster.stop(2)
        for words in (["get", "broker", "2"], ["set", "broker", "2", "log.cleaner.threads=1"]):
            down = cli("config", *words)
            assert down.code == 1
            assert "broker 2 is down" in down.stderr
        for words in (["get", "broker", "7"], ["set", "broker", "7", "log.cleaner.threads=1"]):
            unknown = cli("config", *words)
            assert unknown.code == 4
            assert "no broker 7; known brokers: " in unknown.stderr
        moved = cli("cluster", "reassign", "--to", "2")
        assert moved.code == 4
        assert "live: 1" in moved.stderr
        elected = cli("cluster", "elect")
        assert elected.code == 1
        assert elected.stdout == "no leader was elected\n"


def test_a_missing_partition_is_reported_with_the_last_existing_one(cli: Cli) -> None:
    ended = cli("cluster", "elect", "orders", "-p", "9")
    assert ended.code == 4
    assert ended.stderr == "headrace: no partition 'orders-9'; the last one is 0\n"
