"""Turns a batch's bad lines and rows into dead letters, with their file and position."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from headrace.pipeline.core.line_digest import Digest, digest_of
from headrace.pipeline.dead_letters.headers import Facts, letter_headers
from headrace.pipeline.dead_letters.staged_records import milliseconds, staged_rows
from headrace.pipeline.inflow.batch_intent import BatchIntent
from headrace.pipeline.inflow.file_rows import NO_NUMBER
from headrace.pipeline.inflow.line_numbers import Numbers, line_numbers, path_of_uri
from headrace.pipeline.sinks.table_sink import BatchInfo
from headrace.records.record import Record


class RowOrigin(NamedTuple):
    """Finds the version and the line numbers of rows, from the input of a batch."""

    intent: BatchIntent
    storage_options: Mapping[str, str] | None

    def version(self, path: str) -> int:
        """For a table: the version that added the file. File names in a table are unique."""
        named = {file.rpartition("/")[2]: at for file, at in self.intent.versioned()}
        return named.get(path.rpartition("/")[2], NO_NUMBER)

    def numbers(self, path: str, wanted: set[Digest]) -> Numbers:
        return line_numbers(path, self.storage_options, wanted)


def line_letters(
    batch: BatchInfo, staged: Sequence[str], origin: RowOrigin, now_ms: int
) -> Iterator[tuple[int, Record]]:
    """Each letter with a number. Letters of a file have the same number, to keep their order."""
    numbers = _numbers(staged, origin)
    for record, error in staged_rows(staged):
        path, value = path_of_uri(record["topic"]), record["value"] or b""
        of_line = numbers.get(path, {}).get(digest_of(value))
        facts = Facts(
            topic="",
            partition=NO_NUMBER,
            offset=NO_NUMBER,
            timestamp_ms=milliseconds(record["timestamp"]),
            error=error["class"] or "",
            message=error["message"] or "",
            pipeline=batch.pipeline,
            batch_id=batch.batch_id,
            schema_version=NO_NUMBER,
            file=path,
            line=of_line.popleft() if of_line else NO_NUMBER,
            row=record["offset"],
            version=origin.version(path),
        )
        yield crc32(path.encode()), Record(0, now_ms, None, value, letter_headers((), facts))


def _numbers(staged: Sequence[str], origin: RowOrigin) -> dict[str, Numbers]:
    wanted: dict[str, set[Digest]] = {}
    for record, _ in staged_rows(staged):
        if _is_a_line(record):
            wanted.setdefault(path_of_uri(record["topic"]), set()).add(digest_of(record["value"]))
    return {path: origin.numbers(path, digests) for path, digests in wanted.items()}


def _is_a_line(record: Mapping[str, Any]) -> bool:
    return record["offset"] == NO_NUMBER and record["value"] is not None
