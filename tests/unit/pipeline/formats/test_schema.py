"""Schemas are read from DDL and JSON Schema, or rejected with the reason."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.formats import pinned_schemas
from headrace.pipeline.formats.errors import FormatError
from headrace.pipeline.formats.schema import (
    ArrayOf,
    Column,
    MapOf,
    Primitive,
    StructOf,
    Type,
    parse_ddl,
    parse_json_schema,
    read_schema,
    required_paths,
    to_ddl,
    to_ddl_with_rules,
)


def test_ddl_of_every_kind() -> None:
    found = parse_ddl(
        "id BIGINT NOT NULL COMMENT 'x, y', `odd name` STRING, d DECIMAL(10, 2), "
        "tags ARRAY<STRING>, m MAP<STRING, INT>, s STRUCT<a: INT NOT NULL, b: ARRAY<DATE>>"
    )
    assert to_ddl(found) == (
        "`id` bigint, `odd name` string, `d` decimal(10,2), `tags` array<string>, "
        "`m` map<string,int>, `s` struct<`a`:int,`b`:array<date>>"
    )
    assert list(required_paths(found)) == [("id",)]


@pytest.mark.parametrize(
    "text",
    ["", "id", "id BIGNT", "id BIGINT name", "a ARRAY<INT", "a INT, A INT", "a DECIMAL(99)", "a %"],
)
def test_invalid_ddl_is_rejected(text: str) -> None:
    with pytest.raises(FormatError):
        parse_ddl(text)


JSON_SCHEMA = {
    "type": "object",
    "required": ["id", "note", "place"],
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "note": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "place": {"$ref": "#/$defs/place"},
        "state": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "$defs": {
        "place": {
            "type": "object",
            "required": ["city"],
            "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
        }
    },
}


def test_json_schema_becomes_columns() -> None:
    found = parse_json_schema(json.dumps(JSON_SCHEMA))
    assert to_ddl(found) == (
        "`id` bigint, `amount` double, `at` timestamp, `note` string, `tags` array<string>, "
        "`counts` map<string,bigint>, `place` struct<`city`:string,`zip`:string>, `state` string"
    )
    assert list(required_paths(found)) == [("id",), ("place",), ("place", "city")]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "is not JSON"),
        ({"type": "string"}, "properties"),
        ({"properties": {"a": {}}}, 'a: needs one "type"'),
        ({"properties": {"a": {"type": "text"}}}, "no type 'text'"),
        ({"properties": {"a": {"type": ["string", "integer"]}}}, "needs one"),
        ({"properties": {"a": {"type": "array"}}}, "must be an object"),
        ({"properties": {"a": {"type": "object"}}}, "needs properties"),
        ({"properties": {"a": {"$ref": "#/x"}}}, "leads nowhere"),
        ({"properties": {"a": {"$ref": "http://x"}}}, "outside the file"),
        ({"properties": {"a": {"$ref": "#"}}}, "outside the file"),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "holds itself"),
        ({"properties": {"a": {"type": "string"}}, "required": ["b"]}, "no property"),
    ],
)
def test_a_json_schema_without_columns_is_rejected(schema: object, message: str) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(FormatError, match=message):
        parse_json_schema(text)


types: st.SearchStrategy[Type] = st.recursive(
    st.sampled_from(["bigint", "string", "double", "timestamp", "decimal(5,2)"]).map(Primitive),
    lambda inner: st.one_of(
        inner.map(ArrayOf),
        inner.map(MapOf),
        st.lists(
            st.builds(Column, st.sampled_from("abc"), inner, st.booleans()),
            min_size=1,
            max_size=3,
            unique_by=lambda column: column.name,
        ).map(lambda columns: StructOf(tuple(columns))),
    ),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.builds(Column, st.text("ab`, <-\n", min_size=1, max_size=5), types, st.booleans()),
        min_size=1,
        max_size=4,
        unique_by=lambda column: column.name.lower(),
    )
)
def test_a_pinned_schema_round_trips(columns: list[Column]) -> None:
    struct = StructOf(tuple(columns))
    assert parse_ddl(to_ddl_with_rules(struct)) == struct


def test_a_schema_is_a_file_or_ddl(tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text(json.dumps(JSON_SCHEMA), encoding="utf-8")
    assert read_schema(str(file)).names[0] == "id"
    ddl = tmp_path / "orders.ddl"
    ddl.write_text("-- orders\nid BIGINT,\n  name STRING;\n", encoding="utf-8")
    assert read_schema(str(ddl)).names == ("id", "name")
    assert read_schema("id BIGINT").names == ("id",)
    with pytest.raises(FormatError, match="cannot be read"):
        read_schema(str(tmp_path / "none.json"))


def test_a_schema_is_pinned_once_and_a_change_is_a_new_version(tmp_path: Path) -> None:
    state = str(tmp_path)
    assert pinned_schemas.latest(state, "value") is None
    assert pinned_schemas.pin(state, "value", "json", "id BIGINT").version == 1
    assert pinned_schemas.pin(state, "value", "json", "id BIGINT").version == 1
    assert pinned_schemas.pin(state, "value", "json", "id STRING").version == 2
    assert pinned_schemas.pin(state, "key", "json", "id STRING").version == 1
    latest = pinned_schemas.latest(state, "value")
    assert latest is not None
    assert latest.text == "id STRING"


def test_a_damaged_pinned_schema_is_reported_and_not_replaced(tmp_path: Path) -> None:
    pinned_schemas.pin(str(tmp_path), "value", "json", "id BIGINT")
    (file,) = (tmp_path / "schemas/value").iterdir()
    file.write_text("{", encoding="utf-8")
    with pytest.raises(FormatError, match="cannot be read"):
        pinned_schemas.latest(str(tmp_path), "value")
