"""Transactions that hang or seem to, and copying with aborts, through Kafka's own tools."""

import json
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from support.clients.java import run
from support.wire.connection import Wire
from support.wire.topics import create_topic

CONSUME = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
DEADLINE_S = 60.0
Tool = Callable[..., str]


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    with Wire(bootstrap) as wire:
        create_topic(wire, name)
        create_topic(wire, f"{name}-copy")
    return name


@pytest.fixture
def open_transaction(bootstrap: str, topic: str) -> Iterator[str]:
    """The id of a transaction with one record in the topic, neither committed nor aborted."""
    transactional_id = f"{topic}-id"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(DEADLINE_S)
    yield transactional_id
    producer.purge()


def table(out: str) -> list[dict[str, str]]:
    """The rows of a table by the names of its columns."""
    lines = [line.split("\t") for line in out.splitlines() if "\t" in line]
    names = [name.strip() for name in lines[0]]
    return [dict(zip(names, map(str.strip, line), strict=True)) for line in lines[1:]]


def committed(tool: Tool, topic: str, *more: str) -> list[str]:
    reading = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--timeout-ms", "5000")
    return tool(CONSUME, *reading, "--isolation-level", "read_committed", *more).split()


def test_lists_are_filtered(tool: Tool, open_transaction: str) -> None:
    pattern = f"{open_transaction[:6]}.*-id"
    found = table(tool(TRANSACTIONS, "list", "--transactional-id-pattern", pattern))
    assert open_transaction in [row["TransactionalId"] for row in found]
    old = tool(TRANSACTIONS, "list", "--duration-filter", "3600000")
    assert open_transaction not in old


def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    tool: Tool, topic: str, open_transaction: str
) -> None:
    where = ("--topic", topic, "--partition", "0")
    out = tool(TRANSACTIONS, "find-hanging", *where, "--max-transaction-timeout", "0")
    assert table(out) == []


def test_a_manual_abort_unblocks_readers(
    tool: Tool, bootstrap: str, topic: str, open_transaction: str
) -> None:
    later = Producer({"bootstrap.servers": bootstrap})
    later.produce(topic, b"later", partition=0)
    assert later.flush(DEADLINE_S) == 0
    assert committed(tool, topic) == []
    where = ("--topic", topic, "--partition", "0")
    tool(TRANSACTIONS, "abort", *where, "--start-offset", "0")
    assert committed(tool, topic, "--max-messages", "1") == ["later"]


def test_the_copier_copies_each_record_once_despite_random_aborts(
    tool: Tool, bootstrap: str, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    values = [str(number) for number in range(100)]
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(DEADLINE_S) == 0
    out = run(
        COPIER,
        *("--broker-list", bootstrap, "--transactional-id", f"{topic}-copier"),
        *("--input-topic", topic, "--input-partition", "0", "--output-topic", f"{topic}-copy"),
        *("--transaction-size", "10", "--max-messages", "100", "--enable-random-aborts"),
        *("--consumer-group", f"{topic}-group", "--use-group-metadata", "--group-mode"),
    )
    last = json.loads(out.strip().splitlines()[-1])
    assert (last["consumed"], last["remaining"]) == (100, 0)
    assert committed(tool, f"{topic}-copy", "--max-messages", "100") == values
