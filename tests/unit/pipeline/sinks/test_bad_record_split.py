"""A task sends good rows to the writer and stages bad records; none is lost."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.pipeline.formats.not_json import UNREADABLE
from headrace.pipeline.formats.schema import parse_ddl
from headrace.pipeline.formats.schema_mismatch import Explanation
from headrace.pipeline.sinks.bad_record_split import SplitTask
from headrace.pipeline.sinks.data_files import FileTask

RECORD = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
    ]
)
ERROR = pa.struct([("class", pa.string()), ("message", pa.string()), ("action", pa.string())])
ROWS = pa.schema(
    [("id", pa.int64()), ("_record", RECORD), ("_error", ERROR), ("_deleted", pa.bool_())]
)


def good(number: int) -> dict[str, object]:
    return {"id": number, "_record": None, "_error": None, "_deleted": False}


def bad(offset: int, action: str, *, record: bool = True) -> dict[str, object]:
    return {
        "id": None,
        "_record": {"topic": "t", "partition": 0, "offset": offset} if record else None,
        "_error": {"class": "NotJson", "message": "is not JSON", "action": action},
        "_deleted": False,
    }


def run(
    folder: Path,
    *rows: dict[str, object],
    merges: bool = False,
    explanation: Explanation | None = None,
) -> list[dict[str, object]]:
    columns = [("id", pa.int64())] + ([("_deleted", pa.bool_())] if merges else [])
    task = SplitTask(
        FileTask(str(folder / "table"), "x", pa.schema(columns)),
        str(folder / "staging"),
        merges,
        explanation,
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for row in rows:
            yield pa.RecordBatch.from_pylist([row], schema=ROWS)

    return [row for out in task(batches()) for row in out.to_pylist()]


def of(report: list[dict[str, object]], kind: str) -> list[dict[str, object]]:
    return [row for row in report if row["kind"] == kind]


def test_good_rows_are_written_and_bad_records_staged_unchanged(tmp_path: Path) -> None:
    report = run(tmp_path, good(1), bad(7, "dead_letter"), good(2), bad(8, "skip"))
    (file,) = of(report, "file")
    assert pq.read_table(tmp_path / "table" / str(file["path"])).to_pylist() == [
        {"id": 1},
        {"id": 2},
    ]
    (staged,) = of(report, "staged")
    (letter,) = pq.read_table(str(staged["path"])).to_pylist()
    assert letter["_record"]["offset"] == 7
    assert letter["_error"]["class"] == "NotJson"
    assert [(row["path"], row["rows"]) for row in of(report, "count")] == [("NotJson", 2)]
    assert [row["rows"] for row in of(report, "skipped")] == [1]
    assert of(report, "failed") == []


@pytest.mark.parametrize("action", ["dead_letter", "fail"])
def test_a_record_that_is_not_json_gets_its_own_cause(tmp_path: Path, action: str) -> None:
    row = bad(7, action)
    row["_record"] = {"topic": "t", "partition": 0, "offset": 7, "value": b'{"id": 1'}
    row["_error"] = {"class": "NotJson", "message": UNREADABLE, "action": action}
    report = run(tmp_path, row, explanation=Explanation(parse_ddl("id BIGINT")))
    if action == "dead_letter":
        (staged,) = of(report, "staged")
        (letter,) = pq.read_table(str(staged["path"])).to_pylist()
        message = letter["_error"]["message"]
    else:
        (failed,) = of(report, "failed")
        message = json.loads(str(failed["stats"]))[4]
    assert message == "is incomplete JSON: it ends after 8 characters"


def test_a_record_that_stops_the_flow_is_named_without_its_content(tmp_path: Path) -> None:
    report = run(tmp_path, good(1), bad(7, "fail"), good(2))
    (failed,) = of(report, "failed")
    assert json.loads(str(failed["stats"])) == ["t", 0, 7, "NotJson", "is not JSON", ""]


def test_a_dead_letter_without_its_record_stops_the_flow(tmp_path: Path) -> None:
    (failed,) = of(run(tmp_path, bad(7, "dead_letter", record=False)), "failed")
    assert "_record" in str(failed["stats"])


def test_a_merge_receives_the_rows_to_delete(tmp_path: Path) -> None:
    (file,) = of(run(tmp_path, {**good(1), "_deleted": True}, merges=True), "file")
    rows = pq.read_table(tmp_path / "table" / str(file["path"])).to_pylist()
    assert rows == [{"id": 1, "_deleted": True}]
