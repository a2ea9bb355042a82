"""Transactions as Kafka's own producer, tools and formatter see them."""

import json
from collections.abc import Callable

from support.clients.java import run
from support.waiting import wait_for
from support.wire.batches import fetch, fetch_request
from support.wire.connection import Wire
from support.wire.transactional_producer import (
    READ_COMMITTED,
    TransactionalProducer,
    read_committed,
)

TOPICS = "org.apache.kafka.tools.TopicCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUME = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
RECORDS = 5_000
Tool = Callable[..., str]


def rows(table: str) -> list[dict[str, str]]:
    """A table of TransactionsCommand."""
    head, *lines = [
        [cell.strip() for cell in line.split("\t")] for line in table.splitlines() if line.strip()
    ]
    return [dict(zip(head, line, strict=False)) for line in lines]


def test_the_java_producer_commits_with_the_second_protocol(
    bootstrap: str, tool: Tool, name: str
) -> None:
    tool(TOPICS, "--create", "--topic", name, "--partitions", "2")
    run(
        PERFORMANCE,
        *("--topic", name, "--num-records", str(RECORDS), "--record-size", "100"),
        *("--throughput", "-1", "--bootstrap-server", bootstrap),
        *("--transactional-id", name, "--transaction-duration-ms", "10"),
    )
    (state,) = rows(tool(TRANSACTIONS, "describe", "--transactional-id", name))
    assert state["TransactionState"] == "CompleteCommit"
    assert int(state["ProducerEpoch"]) > 0  # every end has raised it
    read = tool(
        CONSUME,
        *("--topic", name, "--from-beginning", "--max-messages", str(RECORDS)),
        *("--isolation-level", "read_committed", "--timeout-ms", "30000"),
    )
    assert len(read.splitlines()) == RECORDS


def test_tools_list_describe_and_terminate_open_transactions(
    bootstrap: str, tool: Tool, name: str
) -> None:
    tool(TOPICS, "--create", "--topic", name, "--partitions", "1")
    with Wire(bootstrap) as wire:
        producer = TransactionalProducer(wire, transactional_id=name).init(timeout_ms=600_000)
        assert not producer.send(name, b"a")
        listed = rows(tool(TRANSACTIONS, "list", "--transactional-id-pattern", f"{name}.*"))
        assert [one["TransactionState"] for one in listed] == ["Ongoing"]
        (state,) = rows(tool(TRANSACTIONS, "describe", "--transactional-id", name))
        assert state["TopicPartitions"] == f"{name}-0"
        (known,) = rows(
            tool(TRANSACTIONS, "describe-producers", "--topic", name, "--partition", "0")
        )
        assert known["CurrentTransactionStartOffset"] == "0"
        tool(TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", name)
        wait_for(
            lambda: (
                fetch(wire, fetch_request(name, isolation_level=READ_COMMITTED)).last_stable_offset
                == 2
            ),
            "the transaction is aborted",
        )
        assert read_committed(wire, name) == []


def test_a_tool_aborts_a_transaction_in_one_partition(
    bootstrap: str, tool: Tool, name: str
) -> None:
    tool(TOPICS, "--create", "--topic", name, "--partitions", "1")
    with Wire(bootstrap) as wire:
        producer = TransactionalProducer(wire, transactional_id=name).init(timeout_ms=600_000)
        assert not producer.send(name, b"a")
        tool(
            TRANSACTIONS,
            *("abort", "--topic", name, "--partition", "0", "--start-offset", "0"),
        )
        data = fetch(wire, fetch_request(name, isolation_level=READ_COMMITTED))
        assert data.last_stable_offset == data.high_watermark == 2


def test_kafkas_formatter_prints_the_transaction_log(bootstrap: str, tool: Tool, name: str) -> None:
    tool(TOPICS, "--create", "--topic", name, "--partitions", "1")
    with Wire(bootstrap) as wire:
        producer = TransactionalProducer(wire, transactional_id=name).init()
        assert not producer.send(name, b"a")
        producer.commit()
    printed = run(
        CONSUME,
        *("--bootstrap-server", bootstrap, "--topic", "__transaction_state", "--from-beginning"),
        *("--timeout-ms", "8000", "--formatter", FORMATTER),
    )
    decoder, at, entries = json.JSONDecoder(), 0, []
    while at < len(printed.rstrip()):
        entry, at = decoder.raw_decode(printed, at)
        entries.append(entry)
    statuses = [
        entry["value"]["data"]["transactionStatus"]
        for entry in entries
        if entry["key"]["data"]["transactionalId"] == name and entry["value"]
    ]
    assert statuses == [0, 1, 2, 4]  # Empty, Ongoing, PrepareCommit, CompleteCommit
