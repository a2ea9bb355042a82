"""Splits a task's rows in one pass: good rows go to the sink's writer, bad records to staging.

This code runs in Spark's workers, so everything is picklable and opens its files where it runs.
"""

import json
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.pipeline.core.columns import DELETED, ERROR, RECORD, REPORT
from headrace.pipeline.core.line_digest import digest_of
from headrace.pipeline.core.packed_columns import ERROR_ARROW, unpacked_errors, unpacked_records
from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.schema_mismatch import Explanation
from headrace.pipeline.sinks.data_files import DESCRIPTION, DESCRIPTION_DDL
from headrace.pipeline.sinks.table_sink import TaskWriter

REPORT_SCHEMA: Final = pa.schema([("kind", pa.string()), *DESCRIPTION])
REPORT_DDL: Final = f"kind string, {DESCRIPTION_DDL}"

EXPLAINED: Final = frozenset({str(BadRecord.SCHEMA_MISMATCH), str(BadRecord.NOT_JSON)})
"""Error classes whose message Spark's checks leave general; `Explanation` makes it specific."""

FILE: Final = "file"
"""A file of good rows, as the sink's writer describes it."""
STAGED: Final = "staged"
"""A file of bad records to be dead-lettered."""
COUNT: Final = "count"
"""The number (`rows`) of bad records of an error class (`path`)."""
SKIPPED: Final = "skipped"
"""The number (`rows`) of bad records that the flow skips."""
DAMAGED: Final = "damaged"
"""A damaged batch of the log that is skipped: its partition (`path`) and offsets (`stats`)."""
FAILED: Final = "failed"
"""A bad record that stops the flow; `stats` identifies it."""
READ: Final = "read"
"""The number (`rows`) and size of the records read by a task that writes while it reads."""


class FailedRecord(NamedTuple):
    """A record that stops the flow, and the reason. Its content may be confidential: not shown."""

    topic: str
    partition: int
    offset: int
    error: str
    message: str
    digest: str = ""
    """Identifies a line of a file, which has no offset."""

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}, offset {self.offset}: " if self.topic else ""
        return f"{where}{self.error}: {self.message}"


@dataclass(frozen=True)
class SplitTask:
    """Takes the rows of `shape`; returns descriptions of files, and counts."""

    write: TaskWriter
    staging: str
    merges: bool
    explanation: Explanation | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        split = Split(self.staging, {DELETED} if self.merges else set(), self.explanation)
        try:
            for described in self.write(split.good(batches)):
                kind = pa.repeat(pa.scalar(FILE), described.num_rows)
                yield pa.RecordBatch.from_arrays([kind, *described.columns], schema=REPORT_SCHEMA)
        finally:
            split.close()
        yield pa.RecordBatch.from_pylist(split.lines(), schema=REPORT_SCHEMA)


class Split:
    """One task's bad records."""

    def __init__(
        self, staging: str, kept: Collection[str], explanation: Explanation | None = None
    ) -> None:
        self._staging = staging
        self._kept = set(kept)
        self._explanation = explanation
        self._counts: Counter[str] = Counter()
        self._skipped = 0
        self._staged_rows = 0
        self._damaged: list[dict[str, object]] = []
        self._task_reports: list[dict[str, object]] = []
        self._failed: FailedRecord | None = None
        self._path: Path | None = None
        self._writer: pq.ParquetWriter | None = None

    def good(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The good rows, with those of Headrace's own columns that are kept.

        Ends at a record that stops the flow.
        """
        for each in batches:
            batch = self._drop_reports(each)
            errors = batch.column(batch.schema.get_field_index(ERROR))
            good = batch
            if errors.null_count < len(errors):
                bad = pc.is_valid(errors)
                self._add_bad_rows(batch.filter(bad))
                good = batch.filter(pc.invert(bad))
            if self._failed is not None:
                return
            own = {RECORD, ERROR, DELETED} - self._kept
            yield good.select([name for name in good.schema.names if name not in own])

    def _drop_reports(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Collects the reading task's reports, and removes them from the rows."""
        at = batch.schema.get_field_index(REPORT)
        if at < 0:
            return batch
        reports, batch = batch.column(at), batch.drop_columns([REPORT])
        if reports.null_count == len(reports):
            return batch
        self._task_reports += [json.loads(text) for text in reports.drop_null().to_pylist()]
        return batch.filter(pc.is_null(reports))

    def refuse(self, record: pa.Array, error: str, message: str, action: str) -> None:
        """Turns a good row into a bad record; `record` may be null."""
        if action == "dead_letter" and record.null_count:
            action = "fail"
        said = {"class": error, "message": message, "action": action}
        errors = pa.array([said], ERROR_ARROW)
        self._add_bad_rows(pa.RecordBatch.from_arrays([record, errors], names=[RECORD, ERROR]))

    def _add_bad_rows(self, bad: pa.RecordBatch) -> None:
        errors = unpacked_errors(bad.column(bad.schema.get_field_index(ERROR)))
        records = unpacked_records(bad.column(bad.schema.get_field_index(RECORD)))
        bad = pa.RecordBatch.from_arrays([records, errors], names=[RECORD, ERROR])
        for value in pc.value_counts(pc.struct_field(errors, "class")).to_pylist():
            self._counts[value["values"]] += value["counts"]
        actions = pc.struct_field(errors, "action")
        for wanted in ("fail", "dead_letter"):
            chosen = pc.equal(actions, wanted)
            if wanted == "dead_letter":
                chosen = pc.and_(chosen, pc.is_null(records))
            if pc.any(chosen).as_py():
                self._stop_at(bad.filter(chosen), wanted)
                return
        self._note_damage(bad, errors)
        self._skipped += pc.sum(pc.equal(actions, "skip")).as_py() or 0
        self._stage_bad_rows(bad.filter(pc.equal(actions, "dead_letter")).select([RECORD, ERROR]))

    def _note_damage(self, bad: pa.RecordBatch, errors: pa.Array) -> None:
        """Reports damaged batches of the log by offset, even if they are skipped."""
        damaged = bad.filter(pc.equal(pc.struct_field(errors, "class"), BadRecord.DAMAGED_BATCH))
        for row in damaged.select([RECORD, ERROR]).to_pylist():
            of = f"{row[RECORD]['topic']}-{row[RECORD]['partition']}"
            self._damaged.append(line(DAMAGED, path=of, rows=1, stats=row[ERROR]["message"]))

    def _stop_at(self, bad: pa.RecordBatch, action: str) -> None:
        error = bad.column(bad.schema.get_field_index(ERROR))[0].as_py()
        record = bad.column(bad.schema.get_field_index(RECORD))[0].as_py() or {}
        message = self._message(record, error, open_=False)
        if action == "dead_letter":
            message += (
                " (it cannot be dead-lettered: a step that joins rows, or a Python step, leaves "
                "out the column _record)"
            )
        self._failed = FailedRecord(
            record.get("topic", ""),
            record.get("partition", -1),
            record.get("offset", -1),
            error["class"],
            message,
            digest_of(record["value"]).hex() if _is_a_line(record) else "",
        )

    def _stage_bad_rows(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        errors = self._explained_errors(rows).cast(ERROR_ARROW)
        rows = pa.RecordBatch.from_arrays([rows.column(RECORD), errors], names=[RECORD, ERROR])
        if self._writer is None:
            self._path = Path(self._staging) / f"{uuid.uuid4().hex}.parquet"
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(str(self._path), rows.schema, compression="zstd")
        self._writer.write_batch(rows)
        self._staged_rows += rows.num_rows

    def _explained_errors(self, rows: pa.RecordBatch) -> pa.Array:
        """The errors, with the cause or the fields for records that do not fit their schema."""
        errors = rows.column(ERROR)
        explained = pc.is_in(pc.struct_field(errors, "class"), pa.array(sorted(EXPLAINED)))
        if self._explanation is None or not pc.any(explained).as_py():
            return errors
        said: list[dict[str, str]] = errors.to_pylist()
        for at in pc.indices_nonzero(explained).to_pylist():
            record = rows.column(RECORD)[at].as_py()
            said[at]["message"] = self._message(record, said[at], open_=True)
        return pa.array(said, ERROR_ARROW)

    def _message(self, record: Mapping[str, Any], error: Mapping[str, str], *, open_: bool) -> str:
        said = error["message"]
        if self._explanation is None or error["class"] not in EXPLAINED:
            return said
        value, key = record.get("value"), record.get("key")
        return self._explanation.message(value, key, said, open_=open_)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def lines(self) -> list[dict[str, object]]:
        """The task's reports, as rows of `REPORT_SCHEMA`."""
        rows = [line(COUNT, path=name, rows=count) for name, count in self._counts.items()]
        rows += self._damaged + self._task_reports
        if self._skipped:
            rows.append(line(SKIPPED, rows=self._skipped))
        if self._path is not None:
            size = self._path.stat().st_size
            rows.append(line(STAGED, path=str(self._path), rows=self._staged_rows, size=size))
        if self._failed is not None:
            rows.append(line(FAILED, stats=json.dumps(self._failed)))
        return rows


def _is_a_line(record: Mapping[str, Any]) -> bool:
    """Whether the record is a line of a file, whose number is not known yet."""
    return record.get("partition") == -1 and record["offset"] == -1 and record["value"] is not None


def line(
    kind: str, *, path: str = "", rows: int = 0, size: int = 0, stats: str = ""
) -> dict[str, object]:
    """A row of `REPORT_SCHEMA`."""
    return {
        "kind": kind,
        "path": path,
        "rows": rows,
        "size_bytes": size,
        "partition_values": "{}",
        "stats": stats,
    }
