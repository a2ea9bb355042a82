"""The specs in the pipelines guide are valid, and its commands and Python code run."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

import headrace.testing
from headrace.pipeline.application.spec_loader import parse_spec
from support.cli.command import Cli
from support.pipelines.outputs import delta_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "pipelines.md").read_text()
PRINTED_ADDRESS = "127.0.0.1:9092"
GOOD, BROKEN = 6, 2
# Commands that run with the first pipeline; others need a cluster, a bucket or a second process.
COMMANDS = (
    "headrace pipeline validate orders.yaml",
    "headrace pipeline run orders.yaml -b 127.0.0.1:9092 --until-caught-up",
    "headrace pipeline compact orders.yaml --vacuum",
    "headrace dlq list orders.dlq",
    "headrace pipeline status orders.yaml",
    "headrace pipeline lag orders.yaml",
    "headrace pipeline history orders.yaml --limit 50",
    "headrace group describe orders_to_lake",
    "headrace pipeline reset orders.yaml --to beginning --execute",
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def whole_specs() -> list[str]:
    return [each for each in blocks("yaml") if "pipeline:" in each]


@pytest.mark.parametrize("at", range(len(whole_specs())))
def test_each_spec_in_the_guide_is_valid(at: int) -> None:
    assert parse_spec(whole_specs()[at]).resolved()


def fill(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(GOOD):
        producer.produce("orders", f'{{"id": {number}, "customer": "c", "amount": 2.5}}')
    for _ in range(BROKEN):
        producer.produce("orders", '{"id": ')
    assert producer.flush(60) == 0


def test_the_guides_first_pipeline_runs_from_its_commands_and_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: "SparkSession"
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = "\n".join(blocks("sh"))
    with headrace.testing.Broker() as broker:
        servers = broker.bootstrap_servers
        fill(servers)
        (code,) = blocks("python spark")
        (tmp_path / "python").mkdir()
        monkeypatch.chdir(tmp_path / "python")
        found: dict[str, object] = {}
        exec(code.replace(PRINTED_ADDRESS, servers), found)
        promised = re.search(r"print\(done\)  # (.*)", code)
        assert promised is not None
        assert str(found["done"]) == promised[1]

        monkeypatch.chdir(tmp_path)
        (tmp_path / "orders.yaml").write_text(whole_specs()[0])
        cli = Cli(servers, tmp_path)
        for line in COMMANDS:
            assert line in printed, line
            cli.ok(*line.replace(PRINTED_ADDRESS, servers).split()[1:])
    for table in (tmp_path / "lake" / "orders", tmp_path / "python" / "lake" / "orders"):
        assert sorted(row["id"] for row in delta_rows(table)) == list(range(GOOD))
