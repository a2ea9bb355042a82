"""The Helm chart: rendered by Helm's own code, decoded strictly into the types of Kubernetes."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.cluster.java_properties import read_properties
from headrace.cluster.settings import BrokerSettings
from support.clients.programs import SOURCES, run_program

pytestmark = pytest.mark.timeout(900)

CHART = Path(__file__).parents[2] / "packaging" / "helm" / "headrace"
BUILD_TIMEOUT_S = 800
ZOOKEEPER = {"zookeeperConnect": "zk-0.zk:2181,zk-1.zk:2181/headrace"}
EVERYTHING = {
    **ZOOKEEPER,
    "replicaCount": 5,
    "image": {"repository": "registry/headrace", "digest": "sha256:" + "a" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "listener": {"port": 9093, "securityProtocol": "SASL_SSL"},
    "tls": {"secretName": "certificates"},
    "config": {"log.segment.bytes": 1073741824, "auto.create.topics.enable": False},
    "secretConfig": {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security."
        'scram.ScramLoginModule required username="broker" password="secret";',
    },
    "persistence": {"size": "100Gi", "storageClass": "fast"},
    "networkPolicy": {
        "enabled": True,
        "clients": [{"podSelector": {"matchLabels": {"kafka": "client"}}}],
        "metrics": [{"namespaceSelector": {}}],
    },
    "serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "kafka", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "data"},
    "priorityClassName": "high",
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "extraArgs": ["--verbose"],
}


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    program = str(tmp_path_factory.mktemp("helm") / "chart")
    run_program(["go", "build", "-o", program, "."], SOURCES / "helm", BUILD_TIMEOUT_S)
    return [program, str(CHART), "test"]


def rendered(chart: list[str], values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The objects by kind and name."""
    done = subprocess.run(chart, input=yaml.safe_dump(values), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in objects}


def settings(properties: str) -> dict[str, str]:
    """The settings that a pod would get; a broker accepts them."""
    found = read_properties(properties)
    BrokerSettings.parse({**found, "node.id": "0"})
    return found


def test_the_default_values_give_a_cluster(chart: list[str]) -> None:
    objects = rendered(chart, ZOOKEEPER)
    assert {each.split()[0] for each in objects} == {
        *("ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"),
        "StatefulSet",
    }
    found = settings(objects["ConfigMap test-headrace-config"]["data"]["server.properties"])
    assert found["zookeeper.connect"] == ZOOKEEPER["zookeeperConnect"]
    assert found["min.insync.replicas"] == "2"
    pod = objects["StatefulSet test-headrace"]["spec"]["template"]["spec"]
    (broker,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert broker["securityContext"]["readOnlyRootFilesystem"]
    assert broker["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert broker["readinessProbe"]["httpGet"]["path"] == "/readyz"
    ports = {each["name"]: each["containerPort"] for each in broker["ports"]}
    assert ports == {"kafka": 9092, "http": 9644}


def test_one_broker_needs_no_zookeeper_and_replicates_nothing(chart: list[str]) -> None:
    objects = rendered(chart, {"replicaCount": 1})
    found = settings(objects["ConfigMap test-headrace-config"]["data"]["server.properties"])
    assert not [name for name in found if "replication.factor" in name or "min" in name]
    assert "zookeeper.connect" not in found


def test_every_value_is_used_and_gives_valid_objects(chart: list[str]) -> None:
    objects = rendered(chart, EVERYTHING)
    assert "ConfigMap test-headrace-config" not in objects
    secret = objects["Secret test-headrace-config"]["stringData"]["server.properties"]
    found = settings(secret)
    assert found["log.segment.bytes"] == "1073741824"
    assert found["auto.create.topics.enable"] == "false"
    assert found["ssl.keystore.location"] == "/etc/headrace/tls/keystore.pem"
    text = json.dumps([each for name, each in objects.items() if not name.startswith("Secret")])
    assert "secret" not in text.replace('"secret":', "").replace("secretName", "")
    for word in ("registry/headrace@sha256:", "fast", "100Gi", "prometheus", "ssd", "--verbose"):
        assert word in text


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "several brokers need a ZooKeeper"),
        ({**ZOOKEEPER, "listener": {"securityProtocol": "SSL"}}, "needs tls.secretName"),
        ({**ZOOKEEPER, "replicas": 3}, "replicas"),
        ({**ZOOKEEPER, "terminationGracePeriodSeconds": 5}, "terminationGracePeriodSeconds"),
    ],
)
def test_values_that_cannot_work_are_refused(
    chart: list[str], values: dict[str, Any], why: str
) -> None:
    done = subprocess.run(chart, input=yaml.safe_dump(values), capture_output=True, text=True)
    assert done.returncode != 0
    assert why in done.stderr
