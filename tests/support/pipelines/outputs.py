"""The content of a pipeline's sinks, read like their users read them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as Place
from deltalake import DeltaTable

from headrace.pipeline.dead_letters.headers import facts_of
from headrace.pipeline.sinks.iceberg_sink import open_catalog
from headrace.pipeline.sinks.parquet_sink import parquet_files

Row = dict[str, Any]
Rows = Callable[[], list[Row]]
READ_DEADLINE_S = 60


def delta_rows(table: Path) -> list[Row]:
    found: list[Row] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return found


def iceberg_rows(warehouse: Path, name: str) -> list[Row]:
    found: list[Row] = (
        open_catalog(str(warehouse), {}).load_table(name).scan().to_arrow().to_pylist()
    )
    return found


def parquet_rows(folder: Path) -> list[Row]:
    """The rows of the files in the manifests."""
    files = parquet_files(str(folder))
    found: list[Row] = ds.dataset(files, format="parquet").to_table().to_pylist() if files else []
    return found


def all_parquet_rows(folder: Path) -> list[Row]:
    """The rows of every file in the folder, for a tool that ignores manifests."""
    found: list[Row] = (
        ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()
    )
    return found


class Letter(NamedTuple):
    """A dead letter: its flow, the position of its record, and the record's own value."""

    pipeline: str
    partition: int
    offset: int
    value: bytes | None


def letters(bootstrap: str, topic: str) -> list[Letter]:
    """Every committed dead letter, including duplicates."""
    return sorted(map(_letter, committed(bootstrap, topic)))


def _letter(message: Message) -> Letter:
    headers = dict(message.headers() or [])
    return Letter(
        str(headers["headrace.dlq.pipeline"], "utf-8"),
        int(headers["headrace.dlq.source.partition"]),
        int(headers["headrace.dlq.source.offset"]),
        message.value(),
    )


def line_letters(bootstrap: str, topic: str) -> list[tuple[str, int]]:
    """The files and line numbers of every committed dead letter for a line."""
    found = (facts_of(tuple(each.headers() or ())) for each in committed(bootstrap, topic))
    return sorted((facts.file, facts.line) for facts in found)


def json_values(bootstrap: str, topic: str) -> list[Row]:
    """The committed records' values."""
    return [json.loads(message.value() or b"") for message in committed(bootstrap, topic)]


def committed(bootstrap: str, topic: str) -> list[Message]:
    """The records that a read_committed consumer gets, up to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "-",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    found = []
    try:
        partitions = consumer.list_topics(topic, timeout=READ_DEADLINE_S).topics[topic].partitions
        consumer.assign([Place(topic, each, OFFSET_BEGINNING) for each in partitions])
        unread = set(partitions)
        while unread:
            message = consumer.poll(READ_DEADLINE_S)
            assert message is not None, f"{topic} does not end"
            error = message.error()
            if error is None:
                found.append(message)
                continue
            assert error.code() == KafkaError._PARTITION_EOF, error
            unread.discard(message.partition())
    finally:
        consumer.close()
    return found
