"""A pipeline that pauses until its markers have expired resumes where it stopped."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client.admin.topics import delete_records
from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.dead_letters.dead_letter_writer import DeadLetterWriter
from headrace.pipeline.producer import ProducerFailed, ProducerSettings, TransactionalProducer
from headrace.pipeline.producer.transaction_outcome import was_committed
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch
from headrace.pipeline.sinks.topic_journal import TopicJournal
from headrace.pipeline.sinks.topic_sink import TopicSettings, TopicSink
from headrace.testing import Broker
from headrace.testing.helper import Headrace
from headrace.testing.virtual_clock import VirtualClock
from support.brokers.older_features import without_second_protocol
from support.pipelines.deliveries import delivered
from support.pipelines.staged_records import Bad, stage

EIGHT_DAYS_S = 8 * 86_400
ROWS = pa.RecordBatch.from_pydict({"id": [1, 2, 3, 4]})


class Killed(BaseException):
    """Simulates a killed process: no handler catches it."""


@pytest.fixture(scope="module", params=["implicit", "explicit"])
def helper(request: pytest.FixtureRequest) -> Iterator[Headrace]:
    with Broker(clock=VirtualClock()) as broker:
        if request.param == "explicit":
            without_second_protocol(broker.headrace)
        yield broker.headrace


@pytest.fixture
def source(helper: Headrace) -> str:
    return helper.create_topic()


def rest(helper: Headrace, group: str) -> None:
    """Waits until the group has expired."""
    assert group in helper.groups()
    for _ in range(2):
        helper.clock.advance(EIGHT_DAYS_S)
    helper.wait_for(lambda: group not in helper.groups(), "the group is gone")


def batch_of(source: str, batch_id: int = 0) -> BatchInfo:
    return BatchInfo(f"p-{source}", batch_id, (OffsetRange(source, 0, 0, 4 + batch_id),))


class Written:
    """A transactional output of a pipeline: its sink or its dead letters."""

    def __init__(self, open_it: Callable[[], "Opened"], topic: str, group: str) -> None:
        self.open = open_it
        self.topic = topic
        self.group = group


class Opened:
    def __init__(
        self,
        write: Callable[[int], None],
        last: Callable[[], CommittedBatch | None],
        close: Callable[[], None],
    ) -> None:
        self.write = write
        self.last = last
        self.close = close


@pytest.fixture(params=["sink", "dead letters"])
def written(
    request: pytest.FixtureRequest, helper: Headrace, source: str, tmp_path: Path
) -> Written:
    topic = helper.create_topic(f"{source}.out", partitions=2, configs={"retention.ms": -1})
    producer = ProducerSettings(helper.bootstrap_servers)
    at = [TopicPartition(source, 0)]

    def open_sink() -> Opened:
        sink = TopicSink(TopicSettings(topic, producer, tmp_path))

        def write(batch_id: int) -> None:
            batch = batch_of(source, batch_id)
            sink.commit(batch, delivered(sink.write_task(batch), ROWS).written)

        def last() -> CommittedBatch | None:
            sink._open_producer(f"p-{source}")  # as the writer, which decides
            return sink.last_commit(f"p-{source}", at)

        return Opened(write, last, sink.close)

    def open_letters() -> Opened:
        letters = DeadLetterWriter(topic, producer, f"p-{source}", tmp_path)

        def write(batch_id: int) -> None:
            staged = stage(tmp_path, [Bad(source, 0, offset) for offset in range(4)])
            letters.write(batch_of(source, batch_id), [staged])

        return Opened(write, lambda: letters.last_marker(at), letters.close)

    if request.param == "sink":
        return Written(open_sink, topic, f"p-{source}.sink")
    return Written(open_letters, topic, f"p-{source}.dead-letters")


def test_committed_batches_are_recognized_after_the_group_has_expired(
    helper: Headrace, source: str, written: Written
) -> None:
    first = written.open()
    first.write(0)
    first.close()
    rest(helper, written.group)
    again = written.open()
    held = again.last()
    assert held is not None
    assert (held.batch_id, held.offsets) == (0, {TopicPartition(source, 0): 4})
    again.write(1)
    held = again.last()
    again.close()
    assert held is not None
    assert held.batch_id == 1
    assert len(helper.consume(written.topic, 8, read_committed=True)) == 8


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_killed_near_its_commit_is_recovered_after_a_long_pause(
    helper: Headrace,
    source: str,
    written: Written,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = written.open()
    first.write(0)
    usual = TransactionalProducer.commit

    def killed(self: TransactionalProducer) -> None:
        self._writing().flush()
        if moment == "after":
            usual(self)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(TransactionalProducer, "commit", killed)
        patch.setattr(TransactionalProducer, "abort", lambda self: None)
        with pytest.raises(Killed):
            first.write(1)
    rest(helper, written.group)
    again = written.open()
    held = again.last()
    assert held is not None
    assert held.batch_id == (1 if moment == "after" else 0)
    again.write(held.batch_id + 1)
    again.close()
    count = 12 if moment == "after" else 8
    helper.consume(written.topic, count, read_committed=True)
    assert len(helper.consume(written.topic, read_committed=True)) == count


def test_a_pipeline_stops_when_the_records_it_needs_are_deleted(
    helper: Headrace, written: Written
) -> None:
    first = written.open()
    first.write(0)
    first.close()
    gone = {TopicPartition(written.topic, at): 1 for at in range(2)}
    helper._call(lambda client: delete_records(client, gone, timeout_s=30))
    starts = {TopicPartition(written.topic, at): 0 for at in range(2)}
    with pytest.raises(ProducerFailed, match="reset"):
        helper._call(lambda client: was_committed(client, 12345, starts, 30))


def test_a_reset_pipeline_discards_its_journal(
    helper: Headrace, source: str, tmp_path: Path
) -> None:
    settings = ProducerSettings(helper.bootstrap_servers)
    with DeadLetterWriter(f"{source}.dlq", settings, f"p-{source}", tmp_path) as letters:
        letters.write(batch_of(source), [stage(tmp_path, [Bad(source, 0, 1)])])
        assert TopicJournal(tmp_path / "dead-letters.json").read().done is not None
        letters.forget([TopicPartition(source, 0)])
        assert letters.last_marker([TopicPartition(source, 0)]) is None
