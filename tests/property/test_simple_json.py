"""The simple JSON reader returns the same values as Python's parser."""

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.formats.schema import parse_ddl
from headrace.pipeline.formats.simple_json.floats import POWERS, UNKNOWN, fits_float, to_double
from headrace.pipeline.formats.simple_json.reader import SimpleReader

SCHEMA = (
    "i BIGINT, d DOUBLE, s STRING, b BOOLEAN, st STRUCT<x: INT, y: STRING>, arr ARRAY<STRING>, "
    "deep ARRAY<ARRAY<DOUBLE>>, m MAP<STRING, STRUCT<z: BIGINT>>"
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: number == 0 or abs(number) > 1e-300
)
MAYBE_STRUCT = st.none() | st.fixed_dictionaries(
    {}, optional={"x": st.none() | st.integers(-(2**31), 2**31 - 1), "y": st.none() | TEXT}
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | DOUBLES,
        "s": st.none() | TEXT,
        "b": st.none() | st.booleans(),
        "st": MAYBE_STRUCT,
        "arr": st.none() | st.lists(st.none() | TEXT, max_size=5),
        "deep": st.none() | st.lists(st.none() | st.lists(DOUBLES, max_size=3), max_size=3),
        "m": st.none()
        | st.dictionaries(TEXT, st.none() | st.fixed_dictionaries({"z": st.integers(0, 9)})),
        "other": st.recursive(
            st.none() | st.booleans() | st.integers(0, 10**18) | TEXT,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        ),
    },
)


def reader(schema: str = SCHEMA) -> SimpleReader:
    return SimpleReader(parse_ddl(schema), limit_bytes=1 << 20, zoneless=True, unknown_names=True)


def row_of(record: dict[str, Any]) -> dict[str, Any]:
    """The row as Arrow returns it: an absent field is null, a map is a list of pairs."""
    row = {name: record.get(name) for name in ("i", "d", "s", "b", "st", "arr", "deep", "m")}
    if row["st"] is not None:
        row["st"] = {"x": row["st"].get("x"), "y": row["st"].get("y")}
    if row["m"] is not None:
        row["m"] = list(row["m"].items())
    return row


@settings(max_examples=200, deadline=None)
@given(st.lists(RECORDS, max_size=20), st.booleans(), st.sampled_from([None, 1]))
def test_accepted_values_equal_the_written_ones(
    records: list[dict[str, Any]], ascii_only: bool, indent: int | None
) -> None:
    """Every accepted record has its own values; only names with escapes are skipped."""
    texts = [json.dumps(each, ensure_ascii=ascii_only, indent=indent) for each in records]
    values = pa.array([b"?", *(text.encode() for text in texts), None], pa.binary()).slice(1)
    rows, simple = reader().read(values)
    rows.validate(full=True)
    taken = [each for each, yes in zip(records, simple, strict=False) if yes]
    assert not simple[-1]
    assert rows.to_pylist() == [row_of(each) for each in taken]
    for each, yes in zip(records, simple, strict=False):
        assert yes or "other" in each


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 10**19 - 1), st.integers(-330, 310))
def test_numbers_become_the_nearest_double(digits: int, power: int) -> None:
    bits = to_double(np.uint64(digits), power, POWERS)
    if bits != UNKNOWN:
        found = float(np.uint64(bits).view(np.float64))
        assert found == float(f"{digits}e{power}")
    else:
        assert power < -280 or power > 285 or digits > 10**15


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 10**19 - 1), st.integers(-50, 25))
def test_doubles_become_floats_only_where_double_rounding_is_exact(digits: int, power: int) -> None:
    bits = to_double(np.uint64(digits), power, POWERS)
    if bits == UNKNOWN or not fits_float(bits):
        return
    found = np.float32(np.uint64(bits).view(np.float64))
    text = f"{digits}e{power}"
    below, above = np.nextafter(found, np.float32(-np.inf)), np.nextafter(found, np.float32(np.inf))

    exact = Fraction(text)
    distance = abs(exact - Fraction(float(found)))
    assert all(
        math.isinf(each) or distance <= abs(exact - Fraction(float(each)))
        for each in (below, above)
    )


def test_columns_grow_with_their_records() -> None:
    """Lists and texts grow beyond the initial capacity."""
    records = [{"arr": ["x" * 100] * 3000, "s": "y" * 5000, "m": {"k" * 500: None}}] * 3
    values = pa.array([json.dumps(each).encode() for each in records], pa.binary())
    rows, simple = reader().read(values)
    assert simple.all()
    assert rows.to_pylist() == [row_of(each) for each in records]


def test_a_skipped_record_leaves_no_values_behind() -> None:
    """A record that ends in the middle of a list does not change its neighbours."""
    good = {"i": 1, "arr": ["a", "b"], "m": {"k": {"z": 1}}, "deep": [[1.5], []]}
    text = json.dumps(good).encode()
    broken = b'{"arr":["c","d"],"m":{"q":{"z":5}},"deep":[[2.5],[3'
    rows, simple = reader().read(pa.array([text, broken, text, broken, text], pa.binary()))
    assert simple.tolist() == [True, False, True, False, True]
    assert rows.to_pylist() == [row_of(good)] * 3
