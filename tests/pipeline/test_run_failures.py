"""External failures stop a pipeline with a clear message; no row is lost or duplicated."""

import json
import os
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.pipeline.formats.errors import RegistryUnreachable
from headrace.pipeline.runner.events import EventKind
from headrace.pipeline.runner.failures import failure_of
from support.cli.command import Cli
from support.pipelines.delta_pipeline import MakePipeline, Pipeline, Record, Send
from support.pipelines.outputs import Row, delta_rows, iceberg_rows, parquet_rows
from support.pipelines.poison import letters_of
from support.storage.small_disk import NoMount, SmallDisk, small_disk
from support.waiting import wait_for
from support.wire.topics import MakeTopic

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = "id BIGINT, amount DOUBLE"
HUGE_BYTES = 100_000_000
DISK_MB = 4


def orders(*ids: int, partition: int = 0) -> list[Record]:
    return [(partition, None, json.dumps({"id": each, "amount": 1.5}).encode()) for each in ids]


def source(topic: str, **more: object) -> dict[str, object]:
    return {"topics": [topic], "value": {"format": "json", "schema": SCHEMA}, **more}


def ids(pipeline: Pipeline) -> list[int]:
    return sorted(row["id"] for row in pipeline.rows())


def warnings(pipeline: Pipeline) -> list[str]:
    return [event.message for event in pipeline.events if event.kind is EventKind.WARNING]


def failure(pipeline: Pipeline) -> str:
    (failed,) = pipeline.run()
    return str(failed)


def recreate(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(60)

    def is_made() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
        except KafkaException:  # Kafka takes its time to delete the old one
            return False
        return True

    wait_for(is_made, "the topic is made again", deadline_s=60)


# --- topics -------------------------------------------------------------------------------------


def test_a_recreated_topic_stops_the_run_or_is_read_from_the_start(
    bootstrap: str, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic(1)
    send(topic, orders(1, 2, 3))
    strict = make_pipeline(topic)
    assert strict.run() == []
    recreate(bootstrap, topic)
    send(topic, orders(10, 11, 12, 13))
    said = failure(strict)
    assert f"{topic} was deleted and created again" in said
    assert "on_data_loss: continue" in said
    assert ids(strict) == [1, 2, 3]

    lenient = make_pipeline(
        topic, pipeline=strict.flow.id, source=source(topic, on_data_loss="continue")
    )
    assert lenient.run() == []
    assert ids(lenient) == [1, 2, 3, 10, 11, 12, 13]
    send(topic, orders(14))
    assert lenient.run() == []
    assert ids(lenient) == [1, 2, 3, 10, 11, 12, 13, 14]


def test_a_deleted_topic_stops_the_run(
    bootstrap: str, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic(1)
    send(topic, orders(1))
    pipeline = make_pipeline(topic)
    assert pipeline.run() == []
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(60)
    assert f"{topic} is gone. Create it again" in failure(pipeline)
    assert ids(pipeline) == [1]


def test_records_deleted_before_reading_stop_the_run_or_are_reported(
    bootstrap: str, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic(1)
    send(topic, orders(0, 1))
    strict = make_pipeline(topic)
    assert strict.run() == []
    send(topic, orders(2, 3, 4, 5))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([Place(topic, 0, 4)]).values():
        done.result(60)
    said = failure(strict)
    assert f"{topic}-0: offsets 2 to 3 were deleted before they were read" in said
    assert "on_data_loss: continue" in said
    assert ids(strict) == [0, 1]

    lenient = make_pipeline(
        topic, pipeline=strict.flow.id, source=source(topic, on_data_loss="continue")
    )
    assert lenient.run() == []
    assert ids(lenient) == [0, 1, 4, 5]
    (told,) = warnings(lenient)
    assert f"{topic}-0: offsets 2 to 4 are gone, unread" in told


# --- schemas ------------------------------------------------------------------------------------


def test_a_changed_schema_adds_columns_or_stops_the_run(
    make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic(1)
    send(topic, orders(1))
    first = make_pipeline(topic, transform=[])
    assert first.run() == []
    send(topic, [(0, None, b'{"id": 2, "amount": 1.5, "note": "x"}')])

    def changed(schema: str) -> Pipeline:
        value = {"format": "json", "schema": schema}
        return make_pipeline(
            topic,
            pipeline=first.flow.id,
            transform=[],
            source={"topics": [topic], "value": value},
        )

    said = failure(changed("id STRING, amount DOUBLE"))
    assert "id" in said
    assert "string" in said.lower()
    assert ids(first) == [1]
    wider = changed(f"{SCHEMA}, note STRING")
    assert wider.run() == []
    assert sorted((row["id"], row["note"]) for row in wider.rows()) == [(1, None), (2, "x")]


class Registry:
    """A registry that answers every request with the same error."""

    def __init__(self, status: int, body: bytes) -> None:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever)

    def __enter__(self) -> "Registry":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "waits"),
    [
        (503, b"", True),
        (404, b'{"error_code": 40401, "message": "Subject not found"}', False),
        (200, b"<html>a login page</html>", False),
        (401, b"", False),
    ],
    ids=["away", "unknown", "garbage", "locked"],
)
def test_a_registry_without_the_schema_stops_the_batch_and_nothing_is_lost(
    status: int,
    body: bytes,
    waits: bool,
    bootstrap: str,
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    send: Send,
) -> None:
    topic = make_topic(1)
    send(topic, [(0, None, b"\x00\x00\x00\x00\x01\x02")])
    with Registry(status, body) as registry:
        pipeline = make_pipeline(
            topic,
            source={
                "topics": [topic],
                "value": {"format": "avro", "registry": {"url": registry.url}},
            },
            transform=[],
            dead_letter={"topic": f"{topic}.dlq"},
        )
        with pytest.raises(Exception, match=registry.url) as raised:
            pipeline.loop().step()
        assert failure_of(raised.value).retriable is waits
        assert isinstance(raised.value, RegistryUnreachable) is waits
    assert not pipeline.table.exists()


# --- the disk under the table -------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try:
        with small_disk(tmp_path / "disk", DISK_MB) as made:
            yield made
    except NoMount as error:
        pytest.skip(f"needs to mount a small disk: {error}")


READERS: dict[str, Callable[[Path], list[Row]]] = {
    "delta": lambda home: delta_rows(home / "table"),
    "iceberg": lambda home: iceberg_rows(home / "warehouse", "shop.orders"),
    "parquet": lambda home: parquet_rows(home / "table"),
}


@pytest.mark.parametrize("kind", list(READERS))
def test_a_full_disk_stops_the_run_and_the_table_is_exact_afterwards(
    kind: str, disk: SmallDisk, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic(2)
    sinks: dict[str, dict[str, object]] = {
        "delta": {"format": "delta", "table": str(disk.path / "table")},
        "iceberg": {
            "format": "iceberg",
            "table": "shop.orders",
            "warehouse": str(disk.path / "warehouse"),
        },
        "parquet": {"format": "parquet", "table": str(disk.path / "table")},
    }
    pipeline = make_pipeline(
        topic,
        source={"topics": [topic], "value": {"format": "raw"}},
        transform=[{"sql": "SELECT value, _record.partition p, _record.offset o FROM source"}],
        sink=sinks[kind],
    )
    send(topic, [(at % 2, None, b"%d" % at) for at in range(10)])
    assert pipeline.run() == []
    send(topic, [(at % 2, None, os.urandom(500_000)) for at in range(4 * DISK_MB)])
    said = failure(pipeline)
    assert "No space left on device" in said
    assert "The disk is full: free some of it" in said
    places = sorted((row["p"], row["o"]) for row in READERS[kind](disk.path))
    assert places == [(p, o) for p in (0, 1) for o in range(5)]

    disk.resize(20 * DISK_MB)
    assert pipeline.run() == []
    places = sorted((row["p"], row["o"]) for row in READERS[kind](disk.path))
    assert places == [(p, o) for p in (0, 1) for o in range(5 + 2 * DISK_MB)]


# --- poisoned records ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_record_of_a_hundred_megabytes_is_dead_lettered(
    bootstrap: str, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic(1, {"max.message.bytes": 2 * HUGE_BYTES})
    letters = f"{topic}.dlq"
    huge = os.urandom(HUGE_BYTES)
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 2 * HUGE_BYTES})
    for value in (b'{"id": 1}', huge, b'{"id": 2}'):
        producer.produce(topic, value)
        assert producer.flush(120) == 0
    pipeline = make_pipeline(topic, dead_letter={"topic": letters})
    assert pipeline.run() == []
    assert ids(pipeline) == [1, 2]
    (letter,) = letters_of(bootstrap, letters)
    assert (letter.offset, letter.error) == (1, "TooLarge")
    assert letter.value == huge


# --- brokers ------------------------------------------------------------------------------------


def test_an_unreachable_broker_is_named(tmp_path: Path, make_pipeline: MakePipeline) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("""
pipeline: nobody
source: {topics: [orders], value: {format: json}}
sink: {format: delta, table: table}
checkpoint: nobody
kafka: {default.api.timeout.ms: 1000}
""")
    make_pipeline("orders")  # for Spark's session
    ended = Cli("127.0.0.1:1", tmp_path)("pipeline", "lag", str(spec))
    assert ended.code == 5
    assert "127.0.0.1:1" in ended.stderr
