"""A batch's bad records go to the dead-letter topic once, with the batch's marker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.dead_letters.dead_letter_writer import DeadLetterWriter
from headrace.pipeline.dead_letters.headers import facts_of, own_headers
from headrace.pipeline.producer import ProducerFailed, ProducerFenced, ProducerSettings
from headrace.pipeline.sinks.table_sink import BatchInfo
from headrace.pipeline.sinks.topic_batch_marker import BadMarker
from headrace.records.codec import Codec
from headrace.testing import Broker
from headrace.testing.consumer import ReceivedRecord
from headrace.testing.helper import Headrace
from support.pipelines.staged_records import Bad, stage


@pytest.fixture(scope="module")
def helper() -> Iterator[Headrace]:
    with Broker() as broker:
        yield broker.headrace


@pytest.fixture
def source(helper: Headrace) -> str:
    return helper.create_topic(partitions=2)


@pytest.fixture
def topic(source: str) -> str:
    return f"{source}.dlq"


@pytest.fixture
def letters(
    helper: Headrace, source: str, topic: str, tmp_path: Path
) -> Iterator[DeadLetterWriter]:
    with open_letters(helper, source, topic, tmp_path) as letters:
        yield letters


def open_letters(helper: Headrace, source: str, topic: str, folder: Path) -> DeadLetterWriter:
    settings = ProducerSettings(helper.bootstrap_servers, batch_bytes=2_000)
    return DeadLetterWriter(topic, settings, f"pipeline-{source}", folder / "checkpoint")


def batch_of(source: str, batch_id: int, *ends: int) -> BatchInfo:
    ranges = tuple(OffsetRange(source, at, 0, end) for at, end in enumerate(ends))
    return BatchInfo(f"pipeline-{source}", batch_id, ranges, schema_version=3)


def partitions_of(source: str) -> list[TopicPartition]:
    return [TopicPartition(source, 0), TopicPartition(source, 1)]


def found(helper: Headrace, topic: str, count: int) -> list[ReceivedRecord]:
    """All committed dead letters, once there are `count` of them."""
    helper.consume(topic, count, read_committed=True)
    return helper.consume(topic, read_committed=True)


def test_a_dead_letter_has_the_record_its_headers_and_the_error(
    helper: Headrace, source: str, topic: str, letters: DeadLetterWriter, tmp_path: Path
) -> None:
    own = (("trace", b"\xff\x00"), ("empty", None))
    bad = Bad(source, 1, 41, b"\xff{", b"key", own, message="bad byte")
    assert letters.write(batch_of(source, 0, 7, 42), [stage(tmp_path, [bad])]) == 1
    (letter,) = found(helper, topic, 1)
    assert (letter.key, letter.value) == (b"key", b"\xff{")
    assert own_headers(letter.headers) == own
    facts = facts_of(letter.headers)
    assert (facts.topic, facts.partition, facts.offset) == (source, 1, 41)
    assert (facts.timestamp_ms, facts.error) == (1_700_000_000_123, "ParseError")
    assert (facts.message, facts.pipeline) == ("bad byte", f"pipeline-{source}")
    assert (facts.batch_id, facts.schema_version, facts.attempts) == (0, 3, 0)


def test_the_marker_has_the_batch_and_its_end_offsets(
    source: str, letters: DeadLetterWriter, tmp_path: Path
) -> None:
    assert letters.last_marker(partitions_of(source)) is None
    letters.write(batch_of(source, 4, 7, 42), [stage(tmp_path, [Bad(source, 0, 1)])])
    marker = letters.last_marker(partitions_of(source))
    assert marker is not None
    assert marker.batch_id == 4
    assert marker.offsets == {TopicPartition(source, 0): 7, TopicPartition(source, 1): 42}


def test_a_marked_batch_is_not_written_again_by_another_run(
    helper: Headrace, source: str, topic: str, letters: DeadLetterWriter, tmp_path: Path
) -> None:
    staged = [stage(tmp_path, [Bad(source, 0, 1), Bad(source, 0, 2)])]
    assert letters.write(batch_of(source, 0, 3, 0), staged) == 2
    with open_letters(helper, source, topic, tmp_path) as again:
        assert again.write(batch_of(source, 0, 3, 0), staged) == 0
        assert again.write(batch_of(source, 1, 9, 0), [stage(tmp_path, [Bad(source, 0, 8)])]) == 1
    assert [facts_of(each.headers).offset for each in found(helper, topic, 3)] == [1, 2, 8]


def test_a_batch_without_bad_records_needs_no_transaction(
    helper: Headrace, source: str, topic: str, letters: DeadLetterWriter
) -> None:
    assert letters.write(batch_of(source, 0, 3, 3), []) == 0
    assert letters.last_marker(partitions_of(source)) is None
    assert topic not in helper.topics()


def test_many_dead_letters_are_one_transaction(
    helper: Headrace, source: str, topic: str, letters: DeadLetterWriter, tmp_path: Path
) -> None:
    staged = [
        stage(tmp_path, [Bad(source, part, at, b"x" * 100) for at in range(300)])
        for part in range(2)
    ]
    assert letters.write(batch_of(source, 0, 300, 300), staged) == 600
    places = {
        (facts_of(each.headers).partition, facts_of(each.headers).offset)
        for each in found(helper, topic, 600)
    }
    assert places == {(part, at) for part in range(2) for at in range(300)}


def test_a_failed_write_leaves_nothing_and_can_be_retried(
    helper: Headrace, source: str, topic: str, letters: DeadLetterWriter, tmp_path: Path
) -> None:
    helper.create_topic(topic, configs={"max.message.bytes": 3_000})
    small, large = Bad(source, 0, 1), Bad(source, 0, 2, bytes(range(256)) * 100)
    settings = ProducerSettings(helper.bootstrap_servers, batch_bytes=500)
    plain = settings._replace(codec=Codec.NONE)
    with DeadLetterWriter(topic, plain, f"p-{source}", tmp_path / "checkpoint") as strict:
        with pytest.raises(ProducerFailed, match=r"max\.message\.bytes"):
            strict.write(batch_of(source, 0, 3, 0), [stage(tmp_path, [small, large])])
        assert strict.last_marker(partitions_of(source)) is None
        assert strict.write(batch_of(source, 0, 3, 0), [stage(tmp_path, [small])]) == 1
    assert len(found(helper, topic, 1)) == 1


def test_a_second_run_of_the_pipeline_fences_the_first(
    helper: Headrace, source: str, topic: str, letters: DeadLetterWriter, tmp_path: Path
) -> None:
    letters.write(batch_of(source, 0, 1, 0), [stage(tmp_path, [Bad(source, 0, 0)])])
    with open_letters(helper, source, topic, tmp_path) as second:
        second.last_marker(partitions_of(source))
        with pytest.raises(ProducerFenced):
            letters.write(batch_of(source, 1, 2, 0), [stage(tmp_path, [Bad(source, 0, 1)])])
    assert len(found(helper, topic, 1)) == 1


def test_a_lost_commit_response_is_resolved_from_the_marker(
    helper: Headrace, source: str, topic: str, letters: DeadLetterWriter, tmp_path: Path
) -> None:
    letters.last_marker(partitions_of(source))
    helper.trouble.drop("EndTxn", carried_out=True)
    staged = [stage(tmp_path, [Bad(source, 0, 0)])]
    assert letters.write(batch_of(source, 0, 1, 0), staged) == 1
    assert letters.write(batch_of(source, 0, 1, 0), staged) == 0
    assert len(found(helper, topic, 1)) == 1


def test_a_reset_pipeline_discards_its_marker(
    source: str, letters: DeadLetterWriter, tmp_path: Path
) -> None:
    letters.write(batch_of(source, 5, 1, 0), [stage(tmp_path, [Bad(source, 0, 0)])])
    letters.forget(partitions_of(source))
    assert letters.last_marker(partitions_of(source)) is None


def test_offsets_committed_by_another_client_are_not_a_marker(
    helper: Headrace, source: str, letters: DeadLetterWriter
) -> None:
    helper.commit(letters.group, {(source, 0): 3})
    with pytest.raises(BadMarker, match="another name"):
        letters.last_marker(partitions_of(source))
