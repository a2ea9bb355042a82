"""`headrace cluster` and the client's calls behind it, on three nodes of Apache Kafka."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.cli.command import Cli
from support.clients.java import KafkaCluster
from support.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

DEADLINE_S = 120.0
VALUE = b"x" * 10_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cli(cluster: KafkaCluster, tmp_path: Path) -> Cli:
    return Cli(cluster.bootstrap_servers, tmp_path)


@pytest.fixture
def admin(cluster: KafkaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def placed(admin: AdminClient, assignment: list[list[int]]) -> str:
    """A topic whose partitions are on these brokers."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    new = NewTopic(name, replica_assignment=assignment, num_partitions=len(assignment))
    admin.create_topics([new])[name].result(timeout=DEADLINE_S)
    return name


def partitions_of(cli: Cli, topic: str) -> list[dict]:
    return json.loads(cli.ok("topic", "describe", topic, "--format", "json"))[0]["partitions"]


def fill(cluster: KafkaCluster, topic: str, partitions: int, each: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for partition in range(partitions):
        for _ in range(each):
            producer.produce(topic, VALUE, partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def test_the_status_lists_brokers_racks_and_their_replicas(cli: Cli, admin: AdminClient) -> None:
    placed(admin, [[1, 2, 3], [2, 3, 1]])
    facts = json.loads(cli.ok("cluster", "status", "--format", "json"))
    assert facts["live_brokers"] == 3
    assert facts["controller"] in (1, 2, 3)
    assert [each["rack"] for each in facts["brokers"]] == ["r1", "r2", "r3"]
    assert all(each["state"] == "up" and each["replicas"] >= 2 for each in facts["brokers"])
    text = cli.ok("cluster", "brokers")
    assert "r2" in text
    assert cli.ok("cluster", "controller").split()[0] in ("1", "2", "3")


def test_the_verdict_names_a_node_that_hangs_and_then_is_down(
    cluster: KafkaCluster, cli: Cli, admin: AdminClient
) -> None:
    topic = placed(admin, [[1, 2, 3]])
    healthy = cli("cluster", "status", "--format", "json")
    facts = json.loads(healthy.stdout)
    assert (healthy.code, facts["verdict"]) == (0, "healthy")
    assert facts["metadata_store"] is None  # not in Kafka's protocol
    for broker in facts["brokers"]:
        (directory,) = broker["directories"]
        assert 0 < directory["usable_bytes"] < directory["total_bytes"]
    cluster.nodes[3].pause()
    try:
        hangs = cli("cluster", "status")
        assert hangs.code in (6, 7)
        assert "broker 3 does not answer" in hangs.stdout.splitlines()[0]

        def is_down() -> dict | None:
            facts = json.loads(cli("cluster", "status", "--format", "json").stdout)
            return facts if facts["reason"].startswith("broker 3 is down") else None

        facts = wait_for(is_down, "the node is fenced", deadline_s=DEADLINE_S)
        fill(cluster, topic, 1, 1)
    finally:
        cluster.nodes[3].resume()
    assert facts["verdict"] == "degraded"
    assert {each["broker"] for each in facts["out_of_sync"]} == {3}
    wait_for(lambda: cli("cluster", "status").code == 0, "all is in sync", deadline_s=DEADLINE_S)


def test_top_works_through_the_protocol_alone(cli: Cli, admin: AdminClient) -> None:
    topic = placed(admin, [[1, 2]])
    facts = json.loads(cli.ok("top", "--once", "--interval", "0.2", "--format", "json"))
    assert topic in {each["topic"] for each in facts["topics"]}
    assert {each["broker"] for each in facts["brokers"]} == {1, 2, 3}
    assert facts["requests"] == []


def test_a_plan_is_shown_executed_and_reverted(
    cluster: KafkaCluster, cli: Cli, admin: AdminClient, tmp_path: Path
) -> None:
    topic = placed(admin, [[1, 2]] * 6)
    fill(cluster, topic, 6, 5)
    back = tmp_path / "back.json"
    options = ["cluster", "reassign", "--topic", topic, "--to", "1,2,3"]
    shown = json.loads(cli.ok(*options, "--format", "json"))
    assert not shown["executed"]
    assert shown["bytes_to_copy"] > 0
    moved = {(each["partition"]): each["after"] for each in shown["moves"]}
    assert {each["partition"] for each in partitions_of(cli, topic)} >= moved.keys()
    assert all(each["replicas"] == [1, 2] for each in partitions_of(cli, topic))

    done = cli(*options, "--execute", "--save-current", str(back))
    assert done.code == 0, done
    assert "moved" in done.stderr
    now = partitions_of(cli, topic)
    assert (
        sorted(broker for each in now for broker in each["replicas"]) == [1] * 4 + [2] * 4 + [3] * 4
    )
    assert sorted(each["leader"] for each in now) == [1, 1, 2, 2, 3, 3]
    assert cli.ok(*options).startswith("nothing to move")

    again = cli("cluster", "reassign", "--plan", str(back), "--execute")
    assert again.code == 0, again
    assert all(each["replicas"] == [1, 2] for each in partitions_of(cli, topic))


def test_plans_of_kafkas_tool_are_accepted(cli: Cli, admin: AdminClient, tmp_path: Path) -> None:
    topic = placed(admin, [[1, 2]])
    plan = tmp_path / "plan.json"
    item = {"topic": topic, "partition": 0, "replicas": [3, 2], "log_dirs": ["any", "any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [item]}))
    assert cli("cluster", "reassign", "--plan", str(plan), "--execute").code == 0
    (found,) = partitions_of(cli, topic)
    assert found["replicas"] == [3, 2]
    assert found["leader"] == 3


def test_a_slow_move_can_be_watched_and_cancelled(
    cluster: KafkaCluster, cli: Cli, admin: AdminClient
) -> None:
    topic = placed(admin, [[1, 2]])
    fill(cluster, topic, 1, 500)
    options = ["cluster", "reassign", "--topic", topic, "--to", "3,2"]
    begun = cli(*options, "--execute", "--throttle", "20k", "--no-wait")
    assert begun.code == 0, begun
    assert "--status" in begun.stderr and "--unthrottle" in begun.stderr
    (moving,) = json.loads(cli.ok("cluster", "reassign", "--status", "--format", "json"))
    assert (moving["topic"], moving["adding"], moving["removing"]) == (topic, [3], [1])
    assert 0 <= moving["percent"] < 100
    assert json.loads(cli("cluster", "status", "--format", "json").stdout)["moving"] == 1
    refused = cli("cluster", "reassign", "--topic", topic, "--to", "1,3", "--execute")
    assert refused.code == 1
    assert "already moving" in refused.stderr

    assert topic in cli.ok("cluster", "reassign", "--cancel", "--execute")
    assert cli.ok("cluster", "reassign", "--status") == "nothing is moving\n"
    assert sorted(partitions_of(cli, topic)[0]["replicas"]) == [1, 2]
    left = cli.ok("topic", "describe", topic, "--format", "json")
    assert "throttled" not in left
    brokers = cli.ok("config", "get", "broker", "3", "--format", "json")
    assert "throttled" not in brokers
    assert cli.ok("cluster", "reassign", "--cancel") == "nothing is moving\n"


def test_a_move_without_a_throttle_ends_soon(
    cluster: KafkaCluster, cli: Cli, admin: AdminClient
) -> None:
    topic = placed(admin, [[1, 2]])
    fill(cluster, topic, 1, 500)
    options = ["cluster", "reassign", "--topic", topic, "--to", "3,2", "--execute", "--no-wait"]
    assert cli(*options, "--throttle", "20k").code == 0
    assert f"topic {topic}" in cli.ok("cluster", "reassign", "--unthrottle")
    wait_for(
        lambda: cli.ok("cluster", "reassign", "--unthrottle") == "no limit is set\n",
        "all brokers know",
        deadline_s=DEADLINE_S,
    )
    wait_for(
        lambda: cli.ok("cluster", "reassign", "--status") == "nothing is moving\n",
        "the move has ended",
        deadline_s=DEADLINE_S,
    )


def test_the_preferred_replica_leads_again_after_an_election(
    cluster: KafkaCluster, cli: Cli, admin: AdminClient
) -> None:
    topic = placed(admin, [[3, 1, 2]])
    cluster.nodes[3].stop()
    wait_for(
        lambda: partitions_of(cli, topic)[0]["leader"] in (1, 2),
        "another leads",
        deadline_s=DEADLINE_S,
    )
    lagging = json.loads(cli.ok("cluster", "under-replicated", topic, "--format", "json"))
    assert [each["missing"] for each in lagging] == [[3]]
    assert cli.ok("cluster", "under-replicated", topic, "--under-min-isr") == "none\n"
    impatient = cli("cluster", "under-replicated", topic, "--wait", "0.1")
    assert impatient.code == 1
    assert "3" in cli.ok("cluster", "brokers")
    elected = cli("cluster", "elect", topic)
    assert elected.code == 1
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in elected.stderr

    cluster.nodes[3].spawn()
    cluster.nodes[3].wait()
    assert cli.ok("cluster", "under-replicated", topic, "--wait", "120") == "none\n"
    leaders = json.loads(cli.ok("cluster", "leaders", topic, "--format", "json"))
    (partition,) = leaders["partitions"]
    assert partition["preferred"] == 3
    if partition["leader"] != 3:
        assert f"{topic}-0" in cli.ok("cluster", "elect", topic)
    assert "no election was needed" in cli.ok("cluster", "elect", topic)
    assert partitions_of(cli, topic)[0]["leader"] == 3


def test_unknown_topics_and_brokers_and_invalid_plans_are_rejected(
    cli: Cli, admin: AdminClient, tmp_path: Path
) -> None:
    topic = placed(admin, [[1]])
    assert cli("cluster", "elect", "no-such-topic").code == 4
    assert cli("cluster", "reassign", "--to", "1,9").code == 4
    assert cli("cluster", "reassign", "--topic", "no-such-topic").code == 4
    assert cli("cluster", "reassign", "--to", "one").code == 2
    assert cli("cluster", "reassign", "--topic", topic, "--throttle", "fast").code == 2
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t"}]}')
    assert cli("cluster", "reassign", "--plan", str(plan)).code == 2
    gone = cli("cluster", "unregister", "77", "--execute")
    assert gone.code == 1
    assert "BROKER_ID_NOT_REGISTERED" in gone.stderr
