"""A bad record's message names the field, the expected type and the actual value."""

import json

import pytest

from headrace.pipeline.formats.schema import parse_ddl
from headrace.pipeline.formats.schema_mismatch import MAX_FIELDS, Explanation, mismatches

SCHEMA = parse_ddl(
    "id BIGINT, small INT, amount DOUBLE, ok BOOLEAN, name STRING, at TIMESTAMP, "
    "price DECIMAL(10,2), tags ARRAY<STRING>, place STRUCT<x: INT, y: INT>, "
    "counts MAP<STRING, BIGINT>, any VARIANT"
)
SAID = "does not fit the schema: it is OBJECT<>"

MISFITS = [
    ({"id": "7"}, 'id: expected bigint, found string "7"'),
    ({"id": 1.5}, "id: expected bigint, found number 1.5"),
    ({"id": True}, "id: expected bigint, found boolean true"),
    ({"small": 2**31}, "small: expected int, found number 2147483648"),
    ({"amount": "many"}, 'amount: expected double, found string "many"'),
    ({"ok": 1}, "ok: expected boolean, found number 1"),
    ({"name": ["a"]}, 'name: expected string, found array ["a"]'),
    ({"at": "soon"}, 'at: expected timestamp, found string "soon"'),
    ({"price": 123456789.5}, "price: expected decimal(10,2), found number 123456789.5"),
    ({"price": "much"}, 'price: expected decimal(10,2), found string "much"'),
    ({"tags": ["a", 5]}, "tags[1]: expected string, found number 5"),
    ({"tags": "a"}, 'tags: expected array<string>, found string "a"'),
    ({"place": {"x": 1, "y": "?"}}, 'place.y: expected int, found string "?"'),
    ({"counts": {"a": 1, "b": {}}}, "counts.b: expected bigint, found object {}"),
]


@pytest.mark.parametrize(("record", "said"), MISFITS)
def test_a_mismatched_field_is_named(record: dict[str, object], said: str) -> None:
    message = Explanation(SCHEMA).message(json.dumps(record).encode(), None, SAID, open_=True)
    assert message == f"does not fit the schema: {said}"


def test_matching_fields_are_not_named() -> None:
    good = {
        "id": 1,
        "small": -(2**31),
        "amount": 1,
        "ok": False,
        "name": "n",
        "at": "2026-01-31T12:00:00Z",
        "price": "1.50",
        "tags": [],
        "place": {"x": None, "z": "?"},
        "counts": {},
        "any": [1, "x"],
        "unknown": {},
    }
    assert list(mismatches(json.dumps(good).encode(), SCHEMA)) == []


def test_a_value_that_is_not_an_object_is_named_as_a_whole() -> None:
    (found,) = mismatches(b"[1]", parse_ddl("id BIGINT"))
    assert found.said(with_value=True) == "the value: expected struct<`id`:bigint>, found array [1]"


def test_a_message_is_bounded_and_hides_the_content_where_it_must() -> None:
    columns = ", ".join(f"{'c' * 200}{at} BIGINT" for at in range(20))
    record = json.dumps({f"{'c' * 200}{at}": "secret" * 1000 for at in range(20)}).encode()
    explanation = Explanation(parse_ddl(columns))
    shown = explanation.message(record, None, SAID, open_=True)
    assert len(shown) < 1000
    assert shown.endswith(f"; and {20 - MAX_FIELDS} more")
    assert "secret" in shown
    assert "secret" not in explanation.message(record, None, SAID, open_=False)


def test_the_message_is_unchanged_without_a_mismatch() -> None:
    explanation = Explanation(parse_ddl("at DATE"), judges_times=False)
    for value in (b'{"at": "31/12/2026"}', b"{", None):
        assert explanation.message(value, None, SAID, open_=True) == SAID


def test_a_record_beyond_a_limit_of_the_parser_is_not_said_to_contradict_the_schema() -> None:
    explanation = Explanation(parse_ddl("id BIGINT"))
    deep = b'{"q":' + b"[" * 998 + b"]" * 998 + b"}"
    said = explanation.message(deep, None, SAID, open_=True)
    assert said == "is nested 999 levels deep; at most 998 can be read"
    assert "5,000 digits" in explanation.message(b"9" * 5000, None, SAID, open_=True)


def test_a_key_has_its_own_schema() -> None:
    explanation = Explanation(None, parse_ddl("id BIGINT"))
    said = explanation.message(b"{}", b'{"id": "x"}', "the key does not fit", open_=True)
    assert said == 'the key does not fit the schema: id: expected bigint, found string "x"'
