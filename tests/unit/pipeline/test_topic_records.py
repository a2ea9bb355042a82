"""Rows as records, and what is known about a topic sink's last commit."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.client.outcomes import TopicPartition
from headrace.pipeline.journal import (
    SHORTEST_RETENTION_S,
    Journal,
    intend,
    read_journal,
    record,
    settled,
)
from headrace.pipeline.sinks.files import described
from headrace.pipeline.sinks.outbox import Encoding, OutboxTask
from headrace.pipeline.sinks.table import Committed, SinkError
from headrace.records.partitioner import partition_for_key


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
    ],
)
def test_rows_that_cannot_become_records_are_refused(
    encoding: Encoding, columns: dict[str, list[int]], said: str
) -> None:
    with pytest.raises(SinkError, match=said):
        encoding.check(pa.RecordBatch.from_pydict(columns).schema)


def test_a_tasks_records_have_the_partitions_of_kafkas_producers(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"key": [f"k{at}" for at in range(50)] + [None] * 2500})
    task = OutboxTask(str(tmp_path), Encoding(), 4)
    (report,) = task(iter([rows]))
    (file,) = [described(row) for row in report.to_pylist()]
    table = pq.read_table(tmp_path / file.path).to_pylist()
    keyed = [row for row in table if row["key"] is not None]
    assert [row["partition"] for row in keyed] == [
        partition_for_key(f"k{at}".encode(), 4) for at in range(50)
    ]
    assert {row["partition"] for row in table if row["key"] is None} == {0, 1, 2}


DONE = Committed(3, {TopicPartition("t", 0): 9}, "v")


def test_the_marker_is_believed_before_the_checkpoint() -> None:
    newer = Committed(4, {TopicPartition("t", 0): 12}, "v")
    assert settled(newer, Journal(DONE, 4, 0.0), 1e9) == newer


def test_a_marker_that_expired_is_replaced_by_the_checkpoint() -> None:
    assert settled(None, Journal(DONE, 3, 0.0), 1e9) == DONE
    assert settled(None, Journal(), 1e9) is None


def test_an_intended_batch_without_marker_was_not_committed_if_it_is_new() -> None:
    assert settled(None, Journal(DONE, 4, 100.0), 200.0) == DONE
    assert settled(None, Journal(None, 0, 100.0), 200.0) is None


def test_what_is_unclear_stops_the_pipeline() -> None:
    with pytest.raises(SinkError, match="begun"):
        settled(None, Journal(DONE, 4, 0.0), SHORTEST_RETENTION_S + 1)
    with pytest.raises(SinkError, match="lost data"):
        settled(Committed(2, {}, "v"), Journal(DONE, 3, 0.0), 0.0)


def test_the_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_journal(tmp_path) == Journal()
    record(tmp_path, DONE)
    intend(tmp_path, 4)
    found = read_journal(tmp_path)
    assert (found.done, found.intended) == (DONE, 4)
    (tmp_path / "commits.json").write_text("{")
    with pytest.raises(SinkError, match="Restore it"):
        read_journal(tmp_path)
