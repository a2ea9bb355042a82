"""Offsets, deletions, directories, configs, features and versions, as Kafka's tools see them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.brokers.processes import BrokerProcess
from support.clients.java import ToolFailed, run

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCE = "org.apache.kafka.tools.ConsoleProducer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
Tool = Callable[..., str]


@pytest.fixture
def filled(tool: Tool, name: str) -> str:
    tool(TOPICS, "--create", "--topic", name, "--partitions", "1")
    tool(PRODUCE, "--topic", name, stdin="a\nb\nc\nd\n")
    return name


@pytest.mark.parametrize(
    ("time", "offset"),
    [
        ("-1", "4"),
        ("latest", "4"),
        ("-2", "0"),
        ("earliest", "0"),
        ("-4", "0"),
        ("earliest-local", "0"),
        ("1000", "0"),
    ],
)
def test_offsets_are_listed_for_every_time_option(
    tool: Tool, filled: str, time: str, offset: str
) -> None:
    out = tool(OFFSETS, "--topic", filled, "--time", time).split()
    assert out == [f"{filled}:0:{offset}"]


@pytest.mark.parametrize("time", ["-3", "max-timestamp", "-5", "latest-tiered"])
def test_offsets_are_listed_for_times_that_depend_on_the_log(
    tool: Tool, filled: str, time: str
) -> None:
    """The four records may share a timestamp, and nothing is tiered: an answer is what counts."""
    out = tool(OFFSETS, "--topic", filled, "--time", time)
    if time in ("-3", "max-timestamp"):
        assert out.startswith(f"{filled}:0:")


def test_records_are_deleted_up_to_an_offset(tool: Tool, filled: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"partitions": [{"topic": filled, "partition": 0, "offset": 3}], "version": 1})
    )
    out = tool(DELETE, "--offset-json-file", str(plan))
    assert "low_watermark: 3" in out
    assert tool(OFFSETS, "--topic", filled, "--time", "earliest").strip() == f"{filled}:0:3"


def test_log_dirs_are_described(tool: Tool, filled: str, broker: BrokerProcess) -> None:
    out = tool(LOG_DIRS, "--describe", "--topic-list", filled)
    told = json.loads(out[out.index("{") :])
    (node,) = told["brokers"]
    (directory,) = node["logDirs"]
    (partition,) = directory["partitions"]
    assert directory["error"] is None
    assert partition["partition"] == f"{filled}-0"
    assert partition["size"] > 0
    assert Path(directory["logDir"]).is_relative_to(broker.data)


def test_topic_configs_are_described_and_altered(tool: Tool, filled: str) -> None:
    topic = ("--entity-type", "topics", "--entity-name", filled)
    added = tool(CONFIGS, *topic, "--alter", "--add-config", "retention.ms=1234,flush.ms=99")
    assert "Completed updating config" in added
    described = tool(CONFIGS, *topic, "--describe")
    assert "retention.ms=1234" in described
    assert "flush.ms=99" in described
    everything = tool(CONFIGS, *topic, "--describe", "--all")
    assert "segment.bytes=1073741824" in everything
    tool(CONFIGS, *topic, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=1234" not in tool(CONFIGS, *topic, "--describe")
    with pytest.raises(ToolFailed, match=r"no\.such"):
        tool(CONFIGS, *topic, "--alter", "--add-config", "no.such=1")


def test_broker_configs_are_described_and_altered(tool: Tool) -> None:
    default = ("--entity-type", "brokers", "--entity-default")
    tool(CONFIGS, *default, "--alter", "--add-config", "log.retention.ms=7777777")
    assert "log.retention.ms=7777777" in tool(CONFIGS, *default, "--describe")
    brokers = tool(CONFIGS, "--entity-type", "brokers", "--describe", "--all")
    assert "log.retention.ms=7777777" in brokers
    assert "num.io.threads=8" in brokers
    tool(CONFIGS, *default, "--alter", "--delete-config", "log.retention.ms")
    assert "7777777" not in tool(CONFIGS, *default, "--describe")


def test_features_are_described(tool: Tool) -> None:
    out = tool(FEATURES, "describe")
    levels = {line.split()[1]: line for line in out.splitlines() if line.startswith("Feature:")}
    assert "FinalizedVersionLevel: 2" in levels["transaction.version"]
    assert {"metadata.version", "group.version", "share.version"} <= set(levels)


def test_the_cluster_id_is_returned(bootstrap: str) -> None:
    out = run(CLUSTER, "cluster-id", "--bootstrap-server", bootstrap)
    assert out.startswith("Cluster ID: ")
    endpoints = run(CLUSTER, "list-endpoints", "--bootstrap-server", bootstrap)
    assert bootstrap.rpartition(":")[2] in endpoints


def test_every_api_is_usable_by_the_java_client(tool: Tool) -> None:
    out = tool(VERSIONS)
    served = [line for line in out.splitlines() if "Produce(0)" in line]
    assert "0 to 13 [usable: 13]" in served[0]
    fetch = next(line for line in out.splitlines() if "Fetch(1)" in line)
    assert "4 to 18 [usable: 18]" in fetch


def test_log_levels_are_described_and_altered(tool: Tool) -> None:
    logger = "headrace.broker.replication"
    nodes = tool(CONFIGS, "--entity-type", "broker-loggers", "--entity-name", "1", "--describe")
    assert "root=" in nodes
    assert f"{logger}=" in nodes
    one = ("--entity-type", "broker-loggers", "--entity-name", "1")
    tool(CONFIGS, *one, "--alter", "--add-config", f"{logger}=DEBUG")
    assert f"{logger}=DEBUG" in tool(CONFIGS, *one, "--describe")
    tool(CONFIGS, *one, "--alter", "--delete-config", logger)
    assert f"{logger}=DEBUG" not in tool(CONFIGS, *one, "--describe")
    with pytest.raises(ToolFailed, match=r"Invalid broker logger\(s\): kafka\.server"):
        tool(CONFIGS, *one, "--alter", "--add-config", "kafka.server=DEBUG")
