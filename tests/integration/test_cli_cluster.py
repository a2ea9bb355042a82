"""`headrace cluster`: the verdict of `status`; invalid arguments change nothing."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import Cluster
from support.cli.command import Cli


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, session_timeout_s=60.0) as cluster:  # a paused broker stays a member
        cluster.headrace.create_topic("orders")
        yield cluster


@pytest.fixture
def cli(cluster: Cluster, tmp_path: Path) -> Cli:
    return Cli(cluster.bootstrap_servers, tmp_path)


def test_a_healthy_cluster_is_reported_with_its_disks_and_its_store(cli: Cli) -> None:
    lines = cli.ok("cluster", "status").splitlines()
    assert lines[0] == "healthy: every partition has a leader, and every replica is in sync"
    facts = json.loads(cli.ok("cluster", "status", "--format", "json"))
    assert (facts["verdict"], facts["problems"], facts["out_of_sync"]) == ("healthy", [], [])
    assert facts["metadata_store"] == "ZooKeeper, connected"
    for broker in facts["brokers"]:
        (directory,) = broker["directories"]
        assert directory["path"] in "\n".join(lines)
        assert 0 < directory["usable_bytes"] < directory["total_bytes"]
        assert broker["answers"]


def test_a_broker_that_hangs_is_reported_within_the_timeout(cluster: Cluster, cli: Cli) -> None:
    leader = cluster.leader("orders")
    cluster.pause(leader)
    try:
        began = time.monotonic()
        ended = cli("cluster", "status", "--timeout", "1", "--format", "json")
        assert time.monotonic() - began < 5
    finally:
        cluster.resume(leader)
    assert ended.code == 7
    facts = json.loads(ended.stdout)
    assert facts["verdict"] == "unavailable"
    assert facts["reason"].startswith(f"broker {leader} does not answer and leads ")
    answers = {broker["id"]: broker["answers"] for broker in facts["brokers"]}
    assert answers == {leader: False, 3 - leader: True}


def test_lists_name_a_broker_that_hangs_and_show_those_of_the_others(
    cluster: Cluster, cli: Cli
) -> None:
    cluster.pause(2)
    try:
        groups = cli("group", "list", "--timeout", "0.5", "--format", "json")
        transactions = cli("txn", "list", "--timeout", "0.5", "--format", "json")
    finally:
        cluster.resume(2)
    for ended, kind in ((groups, "groups"), (transactions, "transactions")):
        assert (ended.code, ended.facts) == (3, [])
        assert ended.stderr.startswith(
            f"headrace: the {kind} that broker 2 coordinates are missing"
        )
        assert ended.stderr.count("\n") == 1
    assert cli("group", "list").code == 0


def test_a_lost_connection_to_the_metadata_store_is_reported(cluster: Cluster, cli: Cli) -> None:
    assert cluster._store is not None
    cluster._store.cut_off(2)
    try:
        ended = cli("cluster", "status")
    finally:
        cluster._store.resume(2)
    assert ended.code == 6
    first, *_ = ended.stdout.splitlines()
    assert first.startswith("degraded: broker 2 has had no connection to ZooKeeper for 0 s")
    assert "ZooKeeper, not connected: broker 2 for 0 s" in ended.stdout


def test_watching_in_a_pipe_prints_a_line_for_each_change(cluster: Cluster, tmp_path: Path) -> None:
    words = ["cluster", "status", "--watch", "--interval", "0.1", "-b", cluster.bootstrap_servers]
    watch = subprocess.Popen(
        [sys.executable, "-m", "headrace", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert watch.stdout is not None
        assert " healthy: " in watch.stdout.readline()
        assert cluster._store is not None
        cluster._store.cut_off(1)
        assert " degraded: broker 1 has had no connection" in watch.stdout.readline()
        cluster._store.resume(1)
    finally:
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=30)
    assert watch.returncode == 130


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
        _check_reports_about_a_stopped_broker(cli)


def _check_reports_about_a_stopped_broker(cli: Cli) -> None:
    ended = cli("cluster", "status", "--format", "json")
    assert ended.code == 6
    facts = json.loads(ended.stdout)
    assert facts["reason"] == "broker 2 is down; 2 of 2 partitions are under-replicated"
    for replica in facts["out_of_sync"]:
        assert (replica["broker"], replica["reason"]) == (2, "broker 2 is down")
        assert replica["out_of_sync_s"] > 0
    told = json.loads(cli.ok("cluster", "under-replicated", "orders", "--format", "json"))
    assert [each["out_of_sync"][0]["reason"] for each in told] == ["broker 2 is down"] * 2
    assert "broker 2 is down" in cli.ok("cluster", "under-replicated")
    refused = cli("cluster", "unregister", "2", "--execute")
    assert refused.code == 1
    assert "broker 2 still holds 2 replicas of topics orders (2)" in refused.stderr
    assert "reassign --to 1 --execute" in refused.stderr
    assert "Nothing was changed" in cli("cluster", "unregister", "2", "--force").stderr
    assert cli.ok("cluster", "unregister", "2", "--force", "--execute") == "unregistered broker 2\n"


def test_a_missing_partition_is_reported_with_the_last_existing_one(cli: Cli) -> None:
    ended = cli("cluster", "elect", "orders", "-p", "9")
    assert ended.code == 4
    assert ended.stderr == "headrace: no partition 'orders-9'; the last one is 0\n"
