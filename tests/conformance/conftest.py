"""One Headrace process for all of Kafka's tools; everything here needs Java and Kafka's jars."""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.spark.session import open_session
from support.brokers.processes import BrokerProcess
from support.clients.java import KafkaNode, run
from support.clients.programs import build_franz_go, build_kafkajs, build_streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tool = Callable[..., str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.java)


@pytest.fixture(scope="session", autouse=True)
def kafka_lib() -> str:
    lib = os.environ.get("HEADRACE_KAFKA_LIB")
    if not lib:
        pytest.skip("HEADRACE_KAFKA_LIB names no directory with Kafka's jars: script/conformance")
    return lib


@pytest.fixture(scope="session")
def broker(kafka_lib: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    home = tmp_path_factory.mktemp("conformance") / "broker"
    with BrokerProcess(home, settings={"group.initial.rebalance.delay.ms": 0}) as started:
        yield started


@pytest.fixture(scope="session")
def bootstrap(broker: BrokerProcess) -> str:
    return os.environ.get("HEADRACE_TEST_BOOTSTRAP") or broker.bootstrap_servers


@pytest.fixture(scope="session")
def kafka(kafka_lib: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    """One node of Apache Kafka, for tests that run on either broker."""
    home = tmp_path_factory.mktemp("kafka") / "node"
    with KafkaNode(home, settings={"group.initial.rebalance.delay.ms": 0}) as node:
        yield node


@pytest.fixture
def tool(bootstrap: str) -> Tool:
    """Runs a class of Kafka's with --bootstrap-server."""

    def start(name: str, *arguments: str, stdin: str | None = None) -> str:
        return run(name, "--bootstrap-server", bootstrap, *arguments, stdin=stdin)

    return start


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Lasts one module: other modules start their own clusters and drivers."""
    session = open_session(
        "conformance",
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "2"},
        log=tmp_path_factory.mktemp("spark") / "spark.log",
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def franz_go(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the client in Go; its arguments are the servers and a topic."""
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    return build_franz_go(tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="session")
def kafkajs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the client in JavaScript; it has the arguments of `franz_go`."""
    if shutil.which("npm") is None:
        pytest.skip("needs Node.js and npm")
    return build_kafkajs(tmp_path_factory.mktemp("kafkajs"))


@pytest.fixture(scope="session")
def streams_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled application of Kafka Streams."""
    if shutil.which("mvn") is None:
        pytest.skip("needs Maven and a JDK")
    return build_streams(tmp_path_factory.mktemp("streams"))


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"
