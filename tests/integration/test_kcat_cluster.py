"""kcat with three replicating brokers: its output, and its behaviour when a leader fails."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing import Cluster
from support.clients.kcat import TIMEOUT_S, kcat, needs_kcat

pytestmark = [needs_kcat, pytest.mark.timeout(240)]

LINES = [f"line {number}" for number in range(500)]
FAILOVER_S = 60.0


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    running.headrace.begin()
    running.ready()
    yield running
    running.headrace.clean()


def kill_leader(cluster: Cluster, topic: str) -> int:
    """Kills the leader and waits for a new one; returns the killed leader's id."""
    old = cluster.leader(topic)
    cluster.kill(old)
    cluster.headrace.wait_for(
        lambda: cluster.leader(topic) != old, "another leads", timeout_s=FAILOVER_S
    )
    return old


def survivors(cluster: Cluster) -> str:
    return ",".join(
        broker.bootstrap_servers for broker in cluster.brokers.values() if broker.is_running
    )


def listed(servers: str, topic: str) -> tuple[set[int], list[dict[str, Any]]]:
    """The brokers that `kcat -L` shows, and the topic's partitions."""
    shown = json.loads(kcat(servers, "-L", "-J"))
    (found,) = (each for each in shown["topics"] if each["topic"] == topic)
    return {each["id"] for each in shown["brokers"]}, found["partitions"]


def ids(of: list[dict[str, int]]) -> set[int]:
    return {each["id"] for each in of}


def test_metadata_lists_every_broker_and_the_new_leader_after_a_kill(cluster: Cluster) -> None:
    topic = cluster.headrace.create_topic(partitions=3)
    brokers, partitions = listed(cluster.bootstrap_servers, topic)
    assert brokers == {1, 2, 3}
    assert [each["leader"] for each in partitions] == [cluster.leader(topic, p) for p in range(3)]
    assert all(ids(each["replicas"]) == ids(each["isrs"]) == {1, 2, 3} for each in partitions)

    dead = kill_leader(cluster, topic)
    alive = {1, 2, 3} - {dead}

    def is_without_the_dead() -> bool:
        """A broker is listed for some seconds after it stops."""
        brokers, partitions = listed(survivors(cluster), topic)
        return brokers == alive and all(
            each["leader"] in alive and ids(each["isrs"]) == alive for each in partitions
        )

    cluster.headrace.wait_for(
        is_without_the_dead,
        "kcat shows the new leaders, and neither brokers nor in-sync sets with the dead one",
        timeout_s=FAILOVER_S,
    )
    _, partitions = listed(survivors(cluster), topic)
    assert all(ids(each["replicas"]) == {1, 2, 3} for each in partitions)


def test_lines_produced_before_and_after_a_leader_failure_are_complete_and_in_order(
    cluster: Cluster,
) -> None:
    topic = cluster.headrace.create_topic()
    half = len(LINES) // 2
    produce = ("-P", "-t", topic, "-X", "acks=all")
    kcat(cluster.bootstrap_servers, *produce, stdin="\n".join(LINES[:half]) + "\n")
    kill_leader(cluster, topic)
    # The dead broker is still a bootstrap server: kcat tries the others.
    kcat(cluster.bootstrap_servers, *produce, stdin="\n".join(LINES[half:]) + "\n")
    read = kcat(
        cluster.bootstrap_servers,
        "-C",
        "-t",
        topic,
        "-o",
        "beginning",
        "-e",
        "-q",
        "-X",
        "check.crcs=true",
    )
    assert read.splitlines() == LINES


def test_kcat_loses_and_repeats_nothing_when_the_leader_fails(
    cluster: Cluster,
) -> None:
    topic = cluster.headrace.create_topic()
    command = ["kcat", "-b", cluster.bootstrap_servers, "-P", "-t", topic]
    command += ["-X", "enable.idempotence=true", "-X", "linger.ms=0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as sent:
        assert sent.stdin is not None
        half = len(LINES) // 2
        sent.stdin.write("\n".join(LINES[:half]) + "\n")
        sent.stdin.flush()
        cluster.headrace.consume(topic, 1, timeout_s=FAILOVER_S)  # it has begun
        kill_leader(cluster, topic)
        _, said = sent.communicate("\n".join(LINES[half:]) + "\n", timeout=TIMEOUT_S)
        assert sent.returncode == 0, said
    read = kcat(survivors(cluster), "-C", "-t", topic, "-o", "beginning", "-e", "-q")
    assert read.splitlines() == LINES


def test_a_group_resumes_after_its_coordinator_fails(cluster: Cluster) -> None:
    topic = cluster.headrace.create_topic()
    group = ("-G", f"{topic}-group", "-X", "auto.offset.reset=earliest", "-e", "-q", topic)
    kcat(cluster.bootstrap_servers, "-P", "-t", topic, stdin="a\nb\n")
    assert kcat(cluster.bootstrap_servers, *group) == "a\nb\n"
    kill_leader(cluster, "__consumer_offsets")
    kcat(survivors(cluster), "-P", "-t", topic, stdin="c\n")
    assert kcat(survivors(cluster), *group) == "c\n"
