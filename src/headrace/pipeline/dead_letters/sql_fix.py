"""A fix in SQL: a SELECT over `source`, whose columns are the fields of the letters' JSON values.

The fields are variants, so a field that the SELECT does not change keeps its value and type.
`_value` is the value as text; `_error` and `_message` are the class and message of the error. A
SELECT of `_value` alone replaces the whole value, for letters that are not JSON.
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headrace.pipeline.dead_letters.dead_letter_reader import Letter
from headrace.pipeline.dead_letters.python_fix import DraftRecord, NotFixed, draft_of
from headrace.pipeline.formats.schema import quoted
from headrace.pipeline.spark.session import open_session
from headrace.pipeline.spec.select import NotASelect, read_select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW: Final = "headrace_dead_letters"
NUMBER: Final = "_letter"
VALUE: Final = "_value"
HELPERS: Final = (NUMBER, VALUE, "_error", "_message")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SqlFix:
    """Runs on Spark, which starts with the first letters; raises `NotASelect`."""

    def __init__(self, sql: str, spark: "SparkSession | None" = None) -> None:
        self._select = read_select(sql)
        if self._select.untraceable or self._select.generates:
            why = self._select.untraceable or "making several rows of one"
            raise NotASelect(f"a fix changes letters one by one, so it can have no {why}")
        self._words = _WORD.findall(sql)
        self._spark = spark

    def __call__(self, letters: Sequence[Letter]) -> Sequence[DraftRecord | NotFixed]:
        try:
            made = self._run(letters)
        except Exception as error:
            if not type(error).__module__.startswith("pyspark"):
                raise
            raise NotASelect(f"--sql: {str(error).splitlines()[0]}") from error
        drafts: list[DraftRecord | NotFixed] = []
        for number, letter in enumerate(letters):
            if number not in made:
                drafts.append(NotFixed("the SELECT leaves it out"))
                continue
            draft = draft_of(letter)
            draft.value = made[number]
            drafts.append(draft)
        return drafts

    def _run(self, letters: Sequence[Letter]) -> dict[int, str | None]:
        if self._spark is None:
            self._spark = open_session("headrace dlq replay")
        rows = [
            (number, _text(each.record.value), each.facts.error, each.facts.message)
            for number, each in enumerate(letters)
        ]
        kinds = f"{NUMBER} int, {VALUE} string, _error string, _message string"
        self._with_fields(self._spark.createDataFrame(rows, kinds), letters)
        found = self._spark.sql(self._select.carrying(VIEW, "false", NUMBER))
        columns = [name for name in found.columns if name not in HELPERS]
        if columns:
            named = ", ".join(quoted(name) for name in columns)
            result = f"to_json(struct({named}))"
        elif VALUE in found.columns:
            result = f"CAST({VALUE} AS string)"
        else:
            raise NotASelect("--sql: the SELECT has no column")
        return {row[0]: row[1] for row in found.selectExpr(NUMBER, result).collect()}

    def _with_fields(self, rows: "DataFrame", letters: Sequence[Letter]) -> None:
        """Creates the view, with a column for each field and each possible name in the SELECT."""
        parsed = f"try_parse_json({VALUE})"
        columns = [
            f"try_variant_get({parsed}, '{_path(name)}', 'variant') AS {quoted(name)}"
            for name in _fields(letters, self._words)
        ]
        rows.selectExpr(*HELPERS, *columns).createOrReplaceTempView(VIEW)


def _fields(letters: Sequence[Letter], words: Sequence[str]) -> list[str]:
    """The names of fields and the words of the SELECT, without duplicates of another case."""
    found: dict[str, str] = {}
    for letter in letters:
        try:
            value = json.loads(letter.record.value or b"")
        except ValueError:
            continue
        if isinstance(value, dict):
            for name in value:
                found.setdefault(name.lower(), name)
    for word in words:
        found.setdefault(word.lower(), word)
    return [name for name in found.values() if name.lower() not in HELPERS]


def _path(name: str) -> str:
    inner = name.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
    return f'$["{inner}"]'


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
