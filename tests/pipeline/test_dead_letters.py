"""A bad record is dead-lettered once, even if the run crashes at any moment."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from headrace.pipeline.dead_letters.headers import facts_of
from headrace.pipeline.runner.step_loop import LoopStep
from headrace.pipeline.sinks.delta_sink import DeltaSink
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch, WrittenFile
from headrace.testing.external import ExternalBroker
from support.pipelines.delta_pipeline import MakePipeline, Send
from support.wire.topics import MakeTopic

pytestmark = pytest.mark.xdist_group("spark")


class Killed(BaseException):
    """Simulates a killed process: no handler catches it."""


def letters(bootstrap: str, topic: str) -> list[tuple[bytes | None, int]]:
    """Value and source offset of every committed dead letter."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "-", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    found = []
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([Place(topic, each, OFFSET_BEGINNING) for each in partitions])
        unread = set(partitions)
        while unread:
            message = consumer.poll(60)
            assert message is not None, "the dead letters do not end"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unread.discard(message.partition())
                continue
            headers = dict(message.headers() or [])
            found.append((message.value(), int(headers["headrace.dlq.source.offset"])))
    finally:
        consumer.close()
    return sorted(found, key=lambda each: each[1])


def test_a_crash_between_dead_letters_and_table_duplicates_neither(
    bootstrap: str,
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    new_name: Callable[[], str],
    send: Send,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, aside = make_topic(1), new_name()
    good = [(0, None, json.dumps({"id": n, "amount": 1}).encode()) for n in range(5)]
    send(topic, [*good, (0, b"k", b"{broken")])
    pipeline = make_pipeline(
        topic,
        dead_letter={"topic": aside},
        expect=[{"name": "small", "sql": "id < 4", "on_fail": "dead_letter"}],
    )

    def killed(self: DeltaSink, batch: BatchInfo, written: Sequence[WrittenFile]) -> CommittedBatch:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(DeltaSink, "commit", killed)
        with pytest.raises(Killed):
            pipeline.loop().step()
    send(topic, [(0, None, b"null"), *good[:2]])
    again = pipeline.loop()
    assert again.step() is LoopStep.MORE  # the batch of the dead letters, unchanged
    assert again.step() is LoopStep.BATCH
    assert again.step() is LoopStep.CAUGHT_UP
    assert pipeline.places() == [(0, n) for n in (0, 1, 2, 3, 7, 8)]
    values = [(json.dumps({"id": 4, "amount": 1}).encode(), 4), (b"{broken", 5), (b"null", 6)]
    assert letters(bootstrap, aside) == values
    assert [event.dead_letters for event in pipeline.batches()] == [0, 1]


def test_dead_letters_and_failed_runs_name_the_mismatched_field(
    bootstrap: str,
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    new_name: Callable[[], str],
    send: Send,
    tmp_path: Path,
) -> None:
    """The dead letter contains the record's content; the logs do not."""
    topic, aside = make_topic(1), new_name()
    send(topic, [(0, None, b'{"id": 1, "amount": "many"}'), (0, None, b'{"id": 2, "amount": 2}')])
    stops = make_pipeline(topic, checkpoint=str(tmp_path / "stops"))
    (failed,) = stops.run()
    assert "amount: expected double, found string. " in str(failed)
    assert "many" not in str(failed)
    assert make_pipeline(topic, dead_letter={"topic": aside}).run() == []
    broker = ExternalBroker(bootstrap)
    (letter,) = broker.headrace.consume(aside, 1, read_committed=True)
    broker.close()
    assert facts_of(letter.headers).message == (
        'does not fit the schema: amount: expected double, found string "many"'
    )
