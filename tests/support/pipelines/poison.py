"""Pipelines with unexpected input, and the results of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from headrace.pipeline.application.spec_loader import parse_spec
from support.pipelines.delta_pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 60
MAX_LETTER_BYTES = 256 << 20


class Letter(NamedTuple):
    partition: int
    offset: int
    error: str
    message: str
    key: bytes | None
    value: bytes | None


class Poisoned(Pipeline):
    """A pipeline with its own dead-letter topic."""

    dead_letters: str


def make(
    home: Path,
    bootstrap: str,
    spark: "SparkSession",
    topic: str,
    *,
    source: Mapping[str, object] | None = None,
    **changes: object,
) -> Poisoned:
    """A pipeline for JSON orders into a Delta table.

    `source` adds options to the source, the other arguments add options to the spec.
    """
    name = f"{topic}.{home.name}"
    spec: dict[str, object] = {
        "pipeline": name,
        "source": {
            "topics": [topic],
            "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
            **(source or {}),
        },
        "transform": [{"sql": "SELECT *, _record.partition AS p, _record.offset AS o FROM source"}],
        "sink": {"format": "delta", "table": str(home / "table")},
        "trigger": "100ms",
        "checkpoint": str(home / "checkpoint"),
        "dead_letter": {"topic": f"{name}.dlq"},
    }
    whole = {key: value for key, value in {**spec, **changes}.items() if value is not None}
    pipeline = Poisoned(parse_spec(json.dumps(whole)), home / "table", bootstrap, spark)
    pipeline.dead_letters = f"{name}.dlq"
    return pipeline


def letters_of(bootstrap: str, topic: str) -> list[Letter]:
    """Every committed dead letter by source; fails on a duplicate."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "-",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "fetch.message.max.bytes": MAX_LETTER_BYTES,
        "receive.message.max.bytes": 2 * MAX_LETTER_BYTES,
    }
    consumer = Consumer(settings)
    found: list[Letter] = []
    try:
        partitions = consumer.list_topics(topic, timeout=POLL_S).topics[topic].partitions
        consumer.assign([Place(topic, each, OFFSET_BEGINNING) for each in partitions])
        unread = set(partitions)
        while unread:
            message = consumer.poll(POLL_S)
            assert message is not None, "the dead letters do not end"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unread.discard(message.partition())
                continue
            told = {
                name.removeprefix("headrace.dlq."): value.decode()
                for name, value in message.headers() or []
                if name.startswith("headrace.dlq.") and isinstance(value, bytes)
            }
            found.append(
                Letter(
                    int(told["source.partition"]),
                    int(told["source.offset"]),
                    told["error.class"],
                    told["error.message"],
                    message.key(),
                    message.value(),
                )
            )
    finally:
        consumer.close()
    places = [each[:2] for each in found]
    assert len(set(places)) == len(places), "a dead letter is there twice"
    return sorted(found, key=lambda each: each[:2])
