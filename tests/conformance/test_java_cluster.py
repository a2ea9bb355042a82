"""Kafka's own tools, franz-go and kcat on `headrace cluster up --brokers 3`."""

import json
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from support.brokers.local_cluster import ClusterUp
from support.clients.java import TIMEOUT_S, ToolFailed, java, run
from support.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
DEADLINE_S = 120.0
GO_S = 300.0
HERE = Path(__file__).parent

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterUp]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
    with ClusterUp(tmp_path_factory.mktemp("up") / "cluster", settings=settings) as cluster:
        yield cluster


@pytest.fixture
def tool(cluster: ClusterUp) -> Tool:
    servers = cluster.bootstrap_servers

    def start(name: str, *arguments: str) -> str:
        return run(name, "--bootstrap-server", servers, *arguments)

    return start


@pytest.fixture
def topic(tool: Tool, name: str) -> str:
    tool(TOPICS, "--create", "--topic", name, "--partitions", "6", "--replication-factor", "3")
    return name


def write(cluster: ClusterUp, topic: str, count: int) -> None:
    out = run(
        *(PRODUCER, "--bootstrap-server", cluster.bootstrap_servers, "--topic", topic),
        *("--max-messages", str(count), "--acks", "-1"),
    )
    assert out.count('"name":"producer_send_success"') == count


def partitions(described: str) -> dict[int, dict[str, str]]:
    """By partition: Leader, Replicas, Isr and so on, as TopicCommand prints them."""
    found = {}
    for line in described.splitlines():
        fields = dict(re.findall(r"(\w+): ?(\S*)", line))
        if "Partition" in fields:
            found[int(fields["Partition"])] = fields
    return found


def test_a_topic_is_described_with_leaders_and_replicas_in_sync(tool: Tool, topic: str) -> None:
    described = partitions(tool(TOPICS, "--describe", "--topic", topic))
    assert len(described) == 6
    for each in described.values():
        assert sorted(each["Replicas"].split(",")) == ["1", "2", "3"]
        assert sorted(each["Isr"].split(",")) == ["1", "2", "3"]
        assert each["Leader"] == each["Replicas"].split(",")[0]
    assert sorted(each["Leader"] for each in described.values()) == list("112233")
    assert topic not in tool(TOPICS, "--describe", "--under-replicated-partitions")
    assert topic not in tool(TOPICS, "--describe", "--under-min-isr-partitions")


def test_reassignments_are_generated_executed_and_verified(
    tool: Tool, cluster: ClusterUp, name: str, tmp_path: Path
) -> None:
    tool(TOPICS, "--create", "--topic", name, "--replica-assignment", "1:2,2:1,1:2")
    write(cluster, name, 300)
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": name}]}))
    generated = tool(
        *(REASSIGN, "--generate", "--topics-to-move-json-file", str(wanted)),
        *("--broker-list", "2,3"),
    )
    plan = tmp_path / "plan.json"
    plan.write_text(generated.splitlines()[-1])
    planned = {
        each["partition"]: each["replicas"] for each in json.loads(plan.read_text())["partitions"]
    }
    executed = tool(REASSIGN, "--execute", "--reassignment-json-file", str(plan))
    assert "Successfully started" in executed

    def verified() -> bool:
        out = tool(REASSIGN, "--verify", "--reassignment-json-file", str(plan))
        return out.count("is completed") == 3

    wait_for(verified, "the moves are completed", deadline_s=DEADLINE_S)
    described = partitions(tool(TOPICS, "--describe", "--topic", name))
    for index, replicas in planned.items():
        assert described[index]["Replicas"] == ",".join(map(str, replicas))
        assert sorted(described[index]["Isr"].split(",")) == sorted(map(str, replicas))
    assert "No partition reassignments" in tool(REASSIGN, "--list")


def test_a_preferred_election_on_all_partitions_succeeds(tool: Tool, topic: str) -> None:
    out = tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    assert "Error" not in out
    named = tool(ELECT, "--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "Valid replica already elected" in named


def test_log_directories_of_all_brokers_are_described(
    tool: Tool, cluster: ClusterUp, topic: str
) -> None:
    write(cluster, topic, 60)
    out = tool(LOG_DIRS, "--describe", "--topic-list", topic)
    facts = json.loads(out.splitlines()[-1])
    assert sorted(each["broker"] for each in facts["brokers"]) == [1, 2, 3]
    for broker in facts["brokers"]:
        (directory,) = broker["logDirs"]
        assert directory["error"] is None
        assert len(directory["partitions"]) == 6


def test_the_cluster_has_one_id_and_three_endpoints(tool: Tool, cluster: ClusterUp) -> None:
    servers = cluster.bootstrap_servers
    assert "Cluster ID: " in run(CLUSTER, "cluster-id", "--bootstrap-server", servers)
    listed = run(CLUSTER, "list-endpoints", "--bootstrap-server", servers)
    assert len([line for line in listed.splitlines() if "127.0.0.1" in line]) == 3


def test_groups_are_read_and_described(tool: Tool, cluster: ClusterUp, topic: str) -> None:
    write(cluster, topic, 120)
    out = run(
        *(CONSUMER, "--bootstrap-server", cluster.bootstrap_servers, "--topic", topic),
        *("--group-id", topic, "--max-messages", "120", "--reset-policy", "earliest"),
    )
    assert '"name":"offsets_committed"' in out
    described = tool(GROUPS, "--describe", "--group", topic)
    lags = [line.split()[5] for line in described.splitlines() if line.startswith(topic)]
    assert lags
    assert set(lags) == {"0"}


def test_the_verifiable_producer_loses_nothing_when_leaders_crash(
    name: str, tmp_path: Path
) -> None:
    with ClusterUp(tmp_path / "cluster") as cluster:
        _kill_under_a_producer(cluster, name, tmp_path)


def _kill_under_a_producer(cluster: ClusterUp, name: str, tmp_path: Path) -> None:
    count = 20_000

    def tool(of: str, *arguments: str) -> str:
        return run(of, "--bootstrap-server", cluster.bootstrap_servers, *arguments)

    tool(TOPICS, "--create", "--topic", name, "--partitions", "3", "--replication-factor", "3")
    with (tmp_path / "out").open("w+") as out:
        process = subprocess.Popen(
            java(
                *(PRODUCER, "--bootstrap-server", cluster.bootstrap_servers, "--topic", name),
                *("--max-messages", str(count), "--acks", "-1", "--throughput", "2000"),
            ),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for(
                lambda: (
                    process.poll() is not None
                    or (tmp_path / "out").read_text().count("producer_send_success") > 1000
                ),
                "records are sent",
                deadline_s=DEADLINE_S,
            )
            assert process.poll() is None, (tmp_path / "out").read_text()[-1000:]
            cluster.kill(2)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    text = (tmp_path / "out").read_text()
    # The tool never retries: a record reported as failed may or may not be stored.
    succeeded = [json.loads(line) for line in text.splitlines() if "producer_send_success" in line]
    sent = {int(each["value"]) for each in succeeded}
    assert len(sent) >= count // 2
    consumed = subprocess.run(
        java(
            *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server"),
            *(cluster.bootstrap_servers, "--topic", name, "--from-beginning"),
            *("--timeout-ms", "10000"),
        ),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    ).stdout.split()
    values = list(map(int, consumed))
    assert sent <= set(values)
    assert len(values) == len(set(values))
    lagging = tool(TOPICS, "--describe", "--under-replicated-partitions", "--topic", name)
    assert len(partitions(lagging)) == 3


def test_zookeeper_holds_kafkas_znodes(cluster: ClusterUp, topic: str) -> None:
    client = KazooClient(str(cluster.state["zookeeper"]), timeout=10)
    client.start(timeout=30)
    try:
        assert sorted(client.get_children("/brokers/ids")) == ["1", "2", "3"]
        broker = json.loads(client.get("/brokers/ids/1")[0])
        assert broker["endpoints"][0].startswith("PLAINTEXT://127.0.0.1:")
        assert topic in client.get_children("/brokers/topics")
        placed = json.loads(client.get(f"/brokers/topics/{topic}")[0])
        assert sorted(placed["partitions"]) == list("012345")
        state = json.loads(client.get(f"/brokers/topics/{topic}/partitions/0/state")[0])
        assert {"leader", "isr", "leader_epoch", "controller_epoch", "version"} <= state.keys()
        controller = json.loads(client.get("/controller")[0])
        assert controller["brokerid"] in (1, 2, 3)
        assert json.loads(client.get("/cluster/id")[0])["id"]
    finally:
        client.stop()
        client.close()


def test_an_invalid_replica_is_rejected_with_kafkas_message(
    tool: Tool, topic: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    item = {"topic": topic, "partition": 0, "replicas": [1, 9]}
    plan.write_text(json.dumps({"version": 1, "partitions": [item]}))
    with pytest.raises(ToolFailed, match=r"[Uu]nknown broker|no such broker|does not exist"):
        tool(REASSIGN, "--execute", "--reassignment-json-file", str(plan))


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_franz_go(cluster: ClusterUp, tmp_path: Path) -> None:
    program = tmp_path / "client"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=HERE / "go", check=True)
    name = f"t-{uuid.uuid4().hex[:12]}"
    done = subprocess.run(
        [str(program), cluster.bootstrap_servers.split(",")[0], name],
        capture_output=True,
        text=True,
        timeout=GO_S,
    )
    assert done.stdout.strip() == "ok", done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat")
def test_kcat_lists_leaders_and_reads(cluster: ClusterUp, topic: str) -> None:
    write(cluster, topic, 10)
    servers = cluster.bootstrap_servers
    listed = json.loads(subprocess.check_output(["kcat", "-b", servers, "-L", "-J", "-t", topic]))
    assert len(listed["brokers"]) == 3
    read = subprocess.check_output(["kcat", "-b", servers, "-C", "-t", topic, "-e", "-q"])
    assert len(read.split()) == 10
