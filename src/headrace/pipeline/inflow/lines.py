"""Lines of files that are no rows: which one it is, for whoever has to mend the file.

Spark's reader says which file it has given up on, and no more. Of JSON it takes what a line begins
with and leaves out what follows in silence, so that is looked for before anything is read.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headrace.pipeline.spec.sources import FileSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

TO_DO: Final = "Correct the file or the spec and start again; nothing of the batch is in the topic"
_CORRUPT: Final = "_corrupt_line"
_PATH: Final = "_path"
# What follows the value breaks the syntax, lengthens the array, or hides the end.
_WRAPPED: Final = """from_json(
    concat('{"r":[', value, ',null],"end":true}'), 'r array<string>, end boolean'
)"""
_NOT_ALONE: Final = "j.end IS NULL OR j.r IS NULL OR size(j.r) <> 2"
_OWN_LINES: Final = ("multiLine", "encoding", "charset", "lineSep")
"""Options with which a line is something else."""


class BadFile(Exception):
    """A file that cannot be read: where, why, and what to do."""


def check_json_lines(spark: "SparkSession", source: FileSource, files: Sequence[str]) -> None:
    """Raises `BadFile` for a line that is not one JSON value and nothing else."""
    if any(name.lower() in map(str.lower, _OWN_LINES) for name in source.options):
        return
    lines = spark.read.text(list(files)).selectExpr("value", f"_metadata.file_path AS {_PATH}")
    parsed = lines.where("trim(value) <> ''").selectExpr("value", _PATH, f"{_WRAPPED} AS j")
    found = parsed.where(_NOT_ALONE).limit(1).collect()
    if found:
        where = _place(found[0][_PATH], found[0]["value"])
        raise BadFile(f"{where} is not one JSON value and nothing else. {TO_DO}")


def bad_line(rows: "DataFrame") -> str | None:
    """The first line that does not fit; `rows` are those of `leniently`."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if _CORRUPT not in rows.columns:
        return None
    found = rows.selectExpr("*", f"_metadata.file_path AS {_PATH}").where(f"{_CORRUPT} IS NOT NULL")
    try:
        first = found.limit(1).collect()
    except (PySparkException, Py4JError):
        return None  # it is not about a line
    return _place(first[0][_PATH], first[0][_CORRUPT]) if first else None


def leniently(reader: "DataFrameReader", schema: str | None) -> "DataFrameReader":
    """The same reader, for `bad_line`: it goes on behind a line that it cannot read."""
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _CORRUPT)
    return reader if schema is None else reader.schema(f"{schema}, {_CORRUPT} STRING")


def _place(uri: str, line: str) -> str:
    """The file, and the line's number where the file is at hand. Its content is not shown."""
    path = unquote(urlsplit(uri).path) if uri.startswith("file:") else uri
    number = line_number(Path(path), line) if uri.startswith("file:") else None
    return f"{path}, line {number}," if number is not None else f"a line of {path}"


def line_number(file: Path, line: str) -> int | None:
    """Where the line is in the file, from 1; None if it is not to be found."""
    wanted = line.strip()
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return next((at for at, each in enumerate(lines, 1) if each.strip() == wanted), None)
    except OSError:
        return None
