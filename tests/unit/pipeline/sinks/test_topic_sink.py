"""Rows as records, and the state of a topic sink's last commit."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.producer import ProducerFenced, ProducerSettings, TriedAgain
from headrace.pipeline.producer.batch_sender import TransactionIdentity
from headrace.pipeline.sinks.partition_locks import PartitionLocks
from headrace.pipeline.sinks.record_encoding import Encoding
from headrace.pipeline.sinks.table_sink import CommittedBatch, SinkError, WrittenFile
from headrace.pipeline.sinks.topic_delivery import Delivery, check_delivered
from headrace.pipeline.sinks.topic_journal import (
    JournalEntry,
    TopicJournal,
    WriteIntent,
    resolve_last_commit,
)
from headrace.records.arrow.partitioning import partitions_for_keys
from headrace.records.partitioner import partition_for_key
from support.pipelines.deliveries import place, shaped


def test_a_value_is_all_columns_as_json() -> None:
    rows = pa.RecordBatch.from_pylist(
        [
            {
                "id": 1,
                "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
                "day": date(2026, 1, 31),
                "amount": Decimal("1.50"),
                "raw": b"\xff",
                "tags": ["ü", None],
            }
        ]
    )
    (value,) = Encoding().values(rows)
    assert json.loads(value or b"") == {
        "id": 1,
        "at": "2026-01-31T12:00:00+00:00",
        "day": "2026-01-31",
        "amount": 1.5,
        "raw": "/w==",
        "tags": ["ü", None],
    }


def test_values_beyond_python_or_json_are_written_exactly() -> None:
    # Digits of a decimal, the keys of a map, numbers that are none, years beyond 9999: in rows
    # that are a part of a batch, too.
    kinds = pa.schema(
        [
            ("exact", pa.decimal128(38, 10)),
            ("whole", pa.decimal128(10, 2)),
            ("counts", pa.map_(pa.string(), pa.list_(pa.decimal128(4, 2)))),
            ("by_day", pa.map_(pa.date32(), pa.int64())),
            ("none", pa.float64()),
            ("far", pa.date32()),
            ("inner", pa.struct([("at", pa.timestamp("us", "UTC")), ("half", pa.float32())])),
        ]
    )
    day_12001, second_11983 = 3_664_000, 316_000_000_000_000_000
    arrays = [
        pa.array([None, Decimal("12345678901234567890.1234567891"), Decimal("-0.5")]),
        pa.array([None, Decimal("2.00"), Decimal("-30.00")]),
        pa.array([None, [("a", [Decimal("0.10"), None]), ("b", None)], []], kinds.field(2).type),
        pa.array([None, [(date(2026, 1, 31), 5)], None], kinds.field(3).type),
        pa.array([1.0, float("nan"), float("-inf")]),
        pa.array([0, day_12001, None], pa.int32()).cast(pa.date32()),
        pa.StructArray.from_arrays(
            [
                pa.array([0, second_11983, 0], pa.int64()).cast(pa.timestamp("us", "UTC")),
                pa.array([0.0, 0.5, 0.0], pa.float32()),
            ],
            names=["at", "half"],
            mask=pa.array([True, False, True]),
        ),
    ]
    rows = pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, kinds, strict=True)], schema=kinds
    )
    encoding = Encoding()
    encoding.check(rows.schema)

    first, second = encoding.values(rows.slice(1))

    assert first == (
        b'{"exact":12345678901234567890.1234567891,"whole":2,"counts":{"a":[0.1,null],"b":null},'
        b'"by_day":{"2026-01-31":5},"none":"NaN","far":"12001-09-10",'
        b'"inner":{"at":"11983-08-23T09:46:40.000000Z","half":0.5}}'
    )
    assert second == (
        b'{"exact":-0.5,"whole":-30,"counts":{},"by_day":null,"none":"-Infinity","far":null,'
        b'"inner":null}'
    )


def test_raw_records_are_the_columns_key_and_value() -> None:
    rows = pa.RecordBatch.from_pydict({"key": ["a", None], "value": [b"\x00", None]})
    encoding = Encoding("raw")
    encoding.check(rows.schema)
    assert encoding.keys(rows) == [b"a", None]
    assert encoding.values(rows) == [b"\x00", None]


@pytest.mark.parametrize(
    ("encoding", "columns", "said"),
    [
        (Encoding("json", ("id",)), {"a": [1]}, "no column id for the key"),
        (Encoding("raw"), {"a": [1]}, "no column value"),
        (Encoding("raw"), {"value": [1]}, "not string or binary"),
        (Encoding(), {"key": [1]}, "rename it"),
        (Encoding(), {"a": [pa.scalar((1, 2, 3), pa.month_day_nano_interval())]}, "as JSON"),
    ],
)
def test_rows_that_cannot_become_records_are_rejected(
    encoding: Encoding, columns: dict[str, list[object]], said: str
) -> None:
    with pytest.raises(SinkError, match=said):
        encoding.check(pa.RecordBatch.from_pydict(columns).schema)


PARTS = 4


def delivery(folder: Path, **changes: object) -> Delivery:
    given = Delivery(
        topic="t",
        partitions=PARTS,
        tasks=2,
        batch_id=0,
        identity=TransactionIdentity("id", 1, 0, implicit=True),
        settings=ProducerSettings("127.0.0.1:1"),
        locks=PartitionLocks.create(folder, "0-0"),
        encoding=Encoding(),
        max_record_bytes=1 << 20,
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def records_of(placed: pa.Table) -> list[dict[str, object]]:
    return [row for row in placed.to_pylist() if row["report"] is None]


def test_a_tasks_records_have_the_partitions_of_kafkas_producers(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"key": [f"k{at}" for at in range(50)] + [None] * 2500})
    found = records_of(place(delivery(tmp_path), shaped(rows), 0))
    assert [row["partition"] for row in found if row["key"] is not None] == [
        partition_for_key(f"k{at}".encode(), PARTS) for at in range(50)
    ]
    assert [row["place"] for row in found] == list(range(2550))
    assert {row["partition"] for row in found if row["key"] is None} == {0, 1, 2}


def test_small_batches_without_keys_do_not_all_go_to_one_partition(tmp_path: Path) -> None:
    rows = shaped(pa.RecordBatch.from_pydict({"value": ["x"] * 3}))
    used = set()
    for batch_id in range(PARTS):
        for row in records_of(place(delivery(tmp_path, batch_id=batch_id), rows, 0)):
            used.add(row["partition"])
    assert used == set(range(PARTS))


def test_many_keys_get_the_same_partitions_as_single_keys() -> None:
    random = Random(1)
    keys = [None if at % 9 == 0 else random.randbytes(at % 23) for at in range(500)]
    found = partitions_for_keys(pa.array(keys, pa.binary()).slice(7), 5, without_key=3)
    assert found.tolist() == [3 if key is None else partition_for_key(key, 5) for key in keys[7:]]


@pytest.mark.parametrize("compressible", [True, False])
def test_a_row_that_the_topic_rejects_is_a_bad_record(tmp_path: Path, compressible: bool) -> None:
    value = b"x" * 5000 if compressible else Random(1).randbytes(5000)
    record = {"topic": "s", "partition": 0, "offset": 7, "key": None, "value": value}
    rows = shaped(pa.RecordBatch.from_pydict({"value": [value, b"y"]}), [record, None])
    to = delivery(tmp_path, max_record_bytes=1000, on_error="dead_letter", encoding=Encoding("raw"))
    placed = place(to, rows, 0, str(tmp_path / "staging"))
    kinds = {json.loads(row["report"])["kind"] for row in placed.to_pylist() if row["report"]}
    assert len(records_of(placed)) == (2 if compressible else 1)
    assert ("staged" in kinds) is not compressible


def test_a_large_row_without_a_source_record_stops_the_flow(tmp_path: Path) -> None:
    rows = shaped(pa.RecordBatch.from_pydict({"value": [Random(1).randbytes(5000)]}))
    to = delivery(tmp_path, max_record_bytes=1000, on_error="dead_letter", encoding=Encoding("raw"))
    said = [row["report"] for row in place(to, rows, 0).to_pylist() if row["report"]]
    (failed,) = [json.loads(each) for each in said if json.loads(each)["kind"] == "failed"]
    assert "max.message.bytes" in failed["stats"]


def test_a_partition_is_written_by_one_attempt_only(tmp_path: Path) -> None:
    locks = PartitionLocks.create(tmp_path, "0-0")
    locks.lock(0)
    locks.lock(1)
    with pytest.raises(TriedAgain, match="an earlier attempt has written"):
        locks.lock(0)
    locks.record_failure({1}, ProducerFenced("somebody else writes"))
    with pytest.raises(ProducerFenced, match="somebody else writes"):
        locks.lock(1)


def test_a_late_attempt_cannot_claim_partitions(tmp_path: Path) -> None:
    late = PartitionLocks.create(tmp_path, "0-0")
    PartitionLocks.create(tmp_path, "0-1").lock(0)
    with pytest.raises(SinkError, match="share"):
        late.lock(0)


def written(partition: int, attempts: list[tuple[int, str]]) -> WrittenFile:
    return WrittenFile(str(partition), 1, 1, {}, json.dumps(attempts))


def test_a_batch_is_whole_only_if_all_partitions_come_from_the_same_attempts(
    tmp_path: Path,
) -> None:
    same = [written(at, [(0, "a"), (1, "b")]) for at in range(PARTS)]
    check_delivered(delivery(tmp_path), same)
    check_delivered(delivery(tmp_path), [])
    other = [*same[:-1], written(PARTS - 1, [(0, "a"), (1, "c")])]
    twice = [written(at, [(0, "a"), (0, "b")]) for at in range(PARTS)]
    for torn in (same[:-1], [*same, same[0]], other, twice):
        with pytest.raises(TriedAgain):
            check_delivered(delivery(tmp_path), torn)


DONE = CommittedBatch(3, {TopicPartition("t", 0): 9}, "v")


INTENT = WriteIntent(
    CommittedBatch(4, {TopicPartition("t", 0): 12}, "v"), 1, {TopicPartition("o", 0): 2}
)


def committed(_: WriteIntent) -> bool:
    return True


def aborted(_: WriteIntent) -> bool:
    return False


def test_the_marker_takes_precedence_over_the_checkpoint() -> None:
    newer = CommittedBatch(4, {TopicPartition("t", 0): 12}, "marker")
    assert resolve_last_commit(newer, JournalEntry(DONE, INTENT), aborted) == newer


def test_a_marker_that_expired_is_replaced_by_the_checkpoint() -> None:
    assert resolve_last_commit(None, JournalEntry(DONE), committed) == DONE
    assert resolve_last_commit(None, JournalEntry(), committed) is None


def test_a_started_batch_without_a_marker_is_looked_up_in_the_topic() -> None:
    assert resolve_last_commit(None, JournalEntry(DONE, INTENT), committed) == INTENT.batch
    assert resolve_last_commit(None, JournalEntry(DONE, INTENT), aborted) == DONE
    assert resolve_last_commit(None, JournalEntry(None, INTENT), aborted) is None


def test_a_marker_behind_the_checkpoint_stops_the_pipeline() -> None:
    with pytest.raises(SinkError, match="lost data"):
        resolve_last_commit(CommittedBatch(2, {}, "v"), JournalEntry(DONE), aborted)


def test_the_journal_round_trips(tmp_path: Path) -> None:
    file = tmp_path / "x" / "commits.json"
    journal = TopicJournal(file)
    assert journal.read() == JournalEntry()
    journal.record(DONE)
    journal.intend(INTENT)
    assert journal.read() == JournalEntry(DONE, INTENT)
    journal.record(INTENT.batch)
    assert journal.read() == JournalEntry(INTENT.batch)
    file.write_text("{")
    with pytest.raises(SinkError, match="Restore it"):
        journal.read()
    journal.forget()
    assert journal.read() == JournalEntry()
