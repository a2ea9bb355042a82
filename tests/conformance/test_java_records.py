"""Kafka's own producers and consumers, its perf tool among them."""

import re
from collections.abc import Callable

import pytest

from support.clients.java import run

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCE = "org.apache.kafka.tools.ConsoleProducer"
CONSUME = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PERF = "org.apache.kafka.tools.ProducerPerformance"
VERIFIABLE = "org.apache.kafka.tools.VerifiableProducer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
Tool = Callable[..., str]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_lines_are_read_back(tool: Tool, name: str, codec: str) -> None:
    tool(TOPICS, "--create", "--topic", name)
    lines = [f"k{number}:value {number}" for number in range(200)]
    tool(
        *(PRODUCE, "--topic", name, "--compression-codec", codec),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
        stdin="\n".join(lines) + "\n",
    )
    read = tool(
        *(CONSUME, "--topic", name, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", "200", "--timeout-ms", "20000"),
        *("--formatter-property", "print.key=true"),
        *("--formatter-property", "key.separator=:"),
    )
    assert read.splitlines()[:200] == lines


def test_a_console_consumer_reads_committed(tool: Tool, name: str) -> None:
    tool(TOPICS, "--create", "--topic", name)
    tool(PRODUCE, "--topic", name, stdin="a\nb\nc\n")
    read = tool(
        *(CONSUME, "--topic", name, "--partition", "0", "--offset", "1"),
        *("--max-messages", "2", "--isolation-level", "read_committed", "--timeout-ms", "20000"),
    )
    assert read.splitlines()[:2] == ["b", "c"]


@pytest.mark.parametrize(
    "properties",
    [
        ("acks=1", "enable.idempotence=false"),
        ("acks=all",),
        ("acks=all", "compression.type=lz4", "linger.ms=5"),
        ("acks=0", "enable.idempotence=false"),
    ],
    ids=" ".join,
)
def test_producer_performance_loses_nothing(
    tool: Tool, bootstrap: str, name: str, properties: tuple[str, ...]
) -> None:
    tool(TOPICS, "--create", "--topic", name, "--partitions", "4")
    out = run(
        *(PERF, "--topic", name, "--num-records", "100000", "--record-size", "100"),
        *("--throughput", "-1"),
        *("--command-property", f"bootstrap.servers={bootstrap}", *properties),
    )
    assert re.search(r"^100000 records sent", out, re.MULTILINE), out
    ends = tool(OFFSETS, "--topic", name, "--time", "latest").split()
    assert sum(int(line.rpartition(":")[2]) for line in ends) == 100_000


def test_the_verifiable_producer_sees_every_ack(tool: Tool, name: str) -> None:
    tool(TOPICS, "--create", "--topic", name)
    out = tool(VERIFIABLE, "--topic", name, "--max-messages", "500", "--acks", "-1")
    assert out.count('"name":"producer_send_success"') == 500
