"""Every valid partition value round-trips in every format."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from headrace.pipeline.core.columns import DELETED
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.sinks.data_files import described
from headrace.pipeline.sinks.delta_sink import DeltaSink
from headrace.pipeline.sinks.iceberg_sink import IcebergSink, open_catalog
from headrace.pipeline.sinks.parquet_sink import ParquetSink, parquet_files
from headrace.pipeline.sinks.partition_values import suspect_partition_values
from headrace.pipeline.sinks.table_sink import BatchInfo, Mode, SinkError, TableSettings, TableSink

TEXTS = (
    *("a/b", "a%2Fb", "%", "a\nb", "a\tb", "\x01", "\x7f", "a\0b", "ü", "日本", "🎉"),
    *(".", "..", "trail.", "trail ", " lead", "_hidden", ".hidden", "a=b", "+", "a+b", "a*?b"),
    *(
        "{x}",
        "[y]",
        "#",
        ":",
        "\\",
        '"',
        "'",
        "null",
        "NaN",
        "007",
        "1.0",
        "true",
        "-",
        "2024-01-01",
    ),
    *("x" * 253, "ü" * 42, "/" * 84, None),
)
NUMBERS = (-1, 0, 2**63 - 1, -(2**63), None)
DAYS = (date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31), None)
ZONED = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(2024, 1, 1, 0, 0, 0, 1, UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    None,
)
TIMES = tuple(each and each.replace(tzinfo=None) for each in ZONED)
PRICES = (Decimal("-1.50"), Decimal("-0.05"), Decimal("0.05"), Decimal("12345678.90"), None)
WHOLE = (Decimal(-1), Decimal(0), Decimal(99_999), None)


class Place:
    """A table of one format, in a mode: written by its sink, read by others."""

    def __init__(self, name: str, home: Path) -> None:
        self.format, _, self.mode = name.partition("-")
        self._home = home

    def sink(self) -> TableSink:
        mode = Mode(self.mode)
        key = ("id",) if mode is Mode.MERGE else ()
        table = str(self._home / "t")
        match self.format:
            case "delta":
                return DeltaSink(TableSettings(table, mode, key, ("p",)))
            case "parquet":
                return ParquetSink(TableSettings(table, mode, key, ("p",)))
        named = TableSettings("lake.t", mode, key, ("p",))
        return IcebergSink(named, warehouse=str(self._home), catalog={})

    def write(self, kind: pa.DataType, values: Sequence[object]) -> None:
        schema = pa.schema([("id", pa.int64()), ("p", kind)])
        sink, of = self.sink(), BatchInfo("t", 0, (OffsetRange("t", 0, 0, 1),))
        sink.prepare(schema)
        columns = {"id": list(range(len(values))), "p": values}
        if self.mode == "merge":
            columns[DELETED] = [False] * len(values)
            schema = schema.append(pa.field(DELETED, pa.bool_()))
        batch = pa.RecordBatch.from_pydict(columns, schema=schema)
        task = sink.write_task(of)
        assert callable(task)
        sink.commit(of, [described(row) for out in task(iter([batch])) for row in out.to_pylist()])

    def read(self, *, texts: bool) -> list[list[object]]:
        """The rows of each reader."""
        table = str(self._home / "t")
        match self.format:
            case "delta":
                found = DeltaTable(table)
                query = QueryBuilder().register("t", found).execute("SELECT id, p FROM t")
                tables = [found.to_pyarrow_table(), pa.table(query.read_all())]
            case "parquet":
                cast = "" if not texts else ", hive_types_autocast=false"
                files = parquet_files(table)
                sql = f"SELECT id, p FROM read_parquet({files}, hive_partitioning=true{cast})"
                tables = [duckdb.sql(sql).to_arrow_table()]
            case _:
                catalog = open_catalog(str(self._home), {})
                tables = [catalog.load_table("lake.t").scan().to_arrow()]
        return [[row["p"] for row in sorted(each.to_pylist(), key=_id)] for each in tables]


def _id(row: dict[str, Any]) -> int:
    number: int = row["id"]
    return number


@pytest.fixture(
    params=["delta-append", "delta-merge", "iceberg-append", "iceberg-merge", "parquet-append"]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), TEXTS),
        (pa.int64(), NUMBERS),
        (pa.bool_(), (True, False, None)),
        (pa.date32(), DAYS),
        (pa.timestamp("us"), TIMES),
        (pa.timestamp("us", "UTC"), ZONED),
        (pa.decimal128(5, 0), WHOLE),
        (pa.decimal128(10, 2), PRICES),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_partition_value_round_trips(
    place: Place, kind: pa.DataType, values: Sequence[object]
) -> None:
    if place.format == "delta" and kind == pa.decimal128(10, 2):
        with pytest.raises(SinkError, match="deltalake corrupts negative values"):
            place.write(kind, values)
        return
    place.write(kind, values)
    # A folder's name has no type: its readers guess dates and numbers, the rest stays text.
    guessed = pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_string(kind)
    as_texts = place.format == "parquet" and not guessed
    for found in place.read(texts=as_texts or kind == pa.string()):
        if as_texts:
            assert found == [None if each is None else _text(each) for each in values]
        else:
            assert found == list(values)


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_an_empty_partition_text_is_null_if_the_format_cannot_store_it(place: Place) -> None:
    place.write(pa.string(), ["", "x", None])
    wanted = ["", "x", None] if place.format == "iceberg" else [None, "x", None]
    assert all(found == wanted for found in place.read(texts=True))


@pytest.mark.parametrize("kind", [pa.float64(), pa.binary(), pa.list_(pa.int64())], ids=str)
def test_a_type_unfit_for_partitions_is_rejected_before_any_write(
    place: Place, kind: pa.DataType
) -> None:
    with pytest.raises(SinkError, match="a table cannot be partitioned by p: a column of type"):
        place.sink().prepare(pa.schema([("id", pa.int64()), ("p", kind)]))


def test_partitioning_by_all_columns_is_rejected_if_rows_would_be_lost(
    tmp_path: Path,
) -> None:
    columns = pa.schema([("p", pa.string())])
    for name in ("delta-append", "parquet-append"):
        with pytest.raises(SinkError, match="a column that is not in partition_by"):
            Place(name, tmp_path).sink().prepare(columns)
    iceberg = Place("iceberg-append", tmp_path)  # its files have the partitions' columns as well
    iceberg.sink().prepare(columns)


def test_a_small_decimal_is_written_without_an_exponent(tmp_path: Path) -> None:
    place = Place("parquet-append", tmp_path)
    place.write(pa.decimal128(10, 10), [Decimal("1E-10"), Decimal("-1E-10")])
    assert place.read(texts=True) == [["0.0000000001", "-0.0000000001"]]


def test_only_texts_that_may_not_fit_are_checked() -> None:
    values = ["x", None, "", "x" * 84, "x" * 85, "__HIVE_DEFAULT_PARTITION__"]
    rows = pa.RecordBatch.from_pydict({"p": values, "q": list(range(6))})
    assert suspect_partition_values(rows, ["p", "q"]).to_pylist() == [False] * 4 + [True] * 2
    assert suspect_partition_values(rows, []).to_pylist() == [False] * 6
