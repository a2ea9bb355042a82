"""A pipeline waits for a slow broker, and no record is lost or duplicated."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.dead_letters.headers import facts_of
from headrace.pipeline.runner.events import EventKind
from headrace.testing import Broker
from support.pipelines.delta_pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow]

DELAY_S = 0.25
ALL = (
    "Metadata",
    "ListOffsets",
    "Fetch",
    "InitProducerId",
    "Produce",
    "TxnOffsetCommit",
    "EndTxn",
)
RECORDS = 60
IMPATIENT_MS = 150
"""A client that gives up before the broker answers, and asks again."""


@pytest.mark.parametrize(
    ("settings", "slow"),
    [({}, ALL), ({"request.timeout.ms": IMPATIENT_MS}, ("Fetch", "Produce", "EndTxn"))],
    ids=["patient", "impatient"],
)
def test_a_pipeline_waits_for_a_slow_broker(
    spark: "SparkSession",
    tmp_path: Path,
    new_name: Callable[[], str],
    settings: dict[str, object],
    slow: tuple[str, ...],
) -> None:
    source, letters = "orders", "orders.dlq"
    table = tmp_path / "table"
    spec = {
        "pipeline": new_name(),
        "kafka": settings,
        "source": {
            "topics": [source],
            "value": {"format": "json", "schema": "id BIGINT"},
            "max_records_per_batch": RECORDS // 2,
        },
        "sink": {"format": "delta", "table": str(table)},
        "dead_letter": {"topic": letters},
        "trigger": "100ms",
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    with Broker() as broker:
        broker.headrace.create_topic(source, partitions=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(RECORDS):
            value = b"{bad" if number % 10 == 9 else json.dumps({"id": number}).encode()
            producer.produce(source, value, partition=number % 2)
        assert producer.flush(60) == 0
        faults = [broker.trouble.delay(api, DELAY_S) for api in slow]
        pipeline = Pipeline(parse_spec(json.dumps(spec)), table, broker.bootstrap_servers, spark)
        assert pipeline.run() == []
        broker.trouble.clear()
        assert all(fault.hits for fault in faults)
        assert sorted(row["id"] for row in pipeline.rows()) == [
            number for number in range(RECORDS) if number % 10 != 9
        ]
        got = broker.headrace.consume(letters, RECORDS // 10, read_committed=True)
        places = [(facts_of(each.headers).partition, facts_of(each.headers).offset) for each in got]
        assert len(places) == len(set(places)) == RECORDS // 10
        assert len(broker.headrace.consume(letters, read_committed=True)) == RECORDS // 10
        assert not [event for event in pipeline.events if event.kind is EventKind.FAILED]
        pipeline.close()
