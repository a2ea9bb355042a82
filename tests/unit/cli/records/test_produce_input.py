"""Records to produce, from lines, JSON or a whole file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.exit_codes import CommandFailed
from headrace.cli.records.format_string import Codings, PrintableRecord
from headrace.cli.records.produce_input import (
    InputForm,
    InputRecord,
    InputSource,
    Shape,
    from_text,
    parse_headers,
    records_of,
)
from headrace.cli.records.record_output import facts_of, printer_of
from headrace.cli.records.value_encoding import ValueEncoding


def read(form: InputForm, data: bytes, shape: Shape | None = None) -> list[InputRecord]:
    source = InputSource("stdin", data.splitlines(keepends=True))
    return list(records_of(form, [source], shape or Shape()))


def test_each_line_is_a_value_without_its_end() -> None:
    values = [each.value for each in read(InputForm.LINES, b"a\nb\r\n\nlast")]
    assert values == [b"a", b"b", b"", b"last"]


def test_bytes_that_are_no_text_pass_unchanged() -> None:
    assert read(InputForm.LINES, b"\xff\xfe\n")[0].value == b"\xff\xfe"


def test_a_separator_splits_keys_off_at_its_first_place() -> None:
    (record,) = read(InputForm.LINES, b"k:v:w\n", Shape(separator=b":"))
    assert (record.key, record.value) == (b"k", b"v:w")


def test_a_line_without_the_separator_is_named() -> None:
    with pytest.raises(CommandFailed, match=r"stdin:2: no key separator ':' in 'oops'"):
        read(InputForm.LINES, b"a:b\noops\n", Shape(separator=b":"))


def test_empty_can_mean_null() -> None:
    records = read(InputForm.LINES, b"k:\n:v\n", Shape(separator=b":", empty_is_null=True))
    assert [(each.key, each.value) for each in records] == [(b"k", None), (None, b"v")]


def test_numbers_and_bytes_are_encoded() -> None:
    shape = Shape(codings=Codings(ValueEncoding.INT32, ValueEncoding.HEX), separator=b" ")
    (record,) = read(InputForm.LINES, b"7 ff00\n", shape)
    assert (record.key, record.value) == (b"\0\0\0\7", b"\xff\0")
    with pytest.raises(CommandFailed, match="stdin:1: 'x' is not int32"):
        read(InputForm.LINES, b"x ff\n", shape)


def test_raw_is_one_record_with_everything() -> None:
    (record,) = read(InputForm.RAW, b"a\nb\n", Shape(key=b"k"))
    assert (record.key, record.value) == (b"k", b"a\nb\n")


def test_json_carries_key_headers_partition_and_timestamp() -> None:
    line = b'{"key":"k","value":"v","headers":{"a":"1","b":null},"partition":2,"timestamp":5}\n\n'
    (record,) = read(InputForm.JSON, line)
    assert record == InputRecord(b"k", b"v", [("a", b"1"), ("b", None)], 2, 5)


def test_what_consume_prints_as_json_is_what_produce_reads() -> None:
    record = PrintableRecord("t", 1, 9, 77, b"k", None, [("h", b"x"), ("n", None)])
    line = printer_of("json", Codings())(record, 1)
    (back,) = read(InputForm.JSON, line)
    assert back == InputRecord(b"k", None, [("h", b"x"), ("n", None)], 1, 77)
    assert facts_of(record, Codings())["timestamp"] == 77


@given(
    key=st.none() | st.binary(max_size=8),
    value=st.none() | st.binary(max_size=8),
    headers=st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=4)), max_size=3),
)
def test_any_bytes_go_through_json_and_come_back_the_same(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    record = PrintableRecord("t", 1, 9, 77, key, value, headers)
    for codings in (
        Codings(),
        Codings(*[ValueEncoding.RAW] * 3),
        Codings(*[ValueEncoding.HEX] * 3),
    ):
        (back,) = read(InputForm.JSON, printer_of("json", codings)(record, 1))
        assert back == InputRecord(key, value, headers, 1, 77)


def test_bytes_that_are_not_utf8_are_base64_in_json_and_say_so() -> None:
    record = PrintableRecord("t", 0, 0, 1, b"\xff", b"\xfe", [("h", b"\xfd"), ("plain", b"x")])
    facts = facts_of(record, Codings())
    assert (facts["key"], facts["key_encoding"]) == ("/w==", "base64")
    assert (facts["value"], facts["value_encoding"]) == ("/g==", "base64")
    assert facts["headers"] == [
        {"key": "h", "value": "/Q==", "value_encoding": "base64"},
        {"key": "plain", "value": "x"},
    ]
    number = facts_of(
        PrintableRecord("t", 0, 0, 1, None, b"\0\0\0\7"), Codings(value=ValueEncoding.INT32)
    )
    assert (number["value"], number["value_encoding"]) == (7, "int32")


@pytest.mark.parametrize(
    "line",
    [
        b'{"value": "x", "value_encoding": "rot13"}',
        b'{"value": "%", "value_encoding": "base64"}',
        b'{"value": "\\ud800"}',
    ],
)
def test_json_whose_bytes_cannot_be_made_is_refused_with_its_line(line: bytes) -> None:
    with pytest.raises(CommandFailed, match="stdin:1: "):
        read(InputForm.JSON, line)


def test_a_json_value_that_is_no_text_is_sent_as_json() -> None:
    (record,) = read(InputForm.JSON, b'{"value": {"a": 1}}')
    assert record.value == b'{"a":1}'


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b'"\xff"',
        b"[]",
        b'{"key": "k"}',
        b'{"value": "v", "partition": "x"}',
        b'{"value":1,"headers":3}',
    ],
)
def test_json_that_is_no_record_is_refused_with_its_line(line: bytes) -> None:
    with pytest.raises(CommandFailed, match="stdin:1: "):
        read(InputForm.JSON, line)


def test_an_invalid_record_is_named_by_its_file_and_its_line_there() -> None:
    sources = [
        InputSource("a.json", [b'{"value": 1}\n', b'{"value": 2}\n']),
        InputSource("b.json", [b"\n", b"{\n"]),
    ]
    records = records_of(InputForm.JSON, sources, Shape())
    assert [next(records).value, next(records).value] == [b"1", b"2"]
    with pytest.raises(CommandFailed, match=r"^b\.json:2: invalid JSON at column 2: Expecting"):
        next(records)


def test_raw_joins_all_files() -> None:
    sources = [InputSource("a", [b"1\n"]), InputSource("b", [b"2\n"])]
    assert [each.value for each in records_of(InputForm.RAW, sources, Shape())] == [b"1\n2\n"]


def test_headers_and_values_of_the_command_line() -> None:
    assert parse_headers(["a=1=2", "b"], ValueEncoding.TEXT) == [("a", b"1=2"), ("b", None)]
    assert from_text("v", Shape(key=b"k")) == InputRecord(b"k", b"v")
    with pytest.raises(CommandFailed, match="--header"):
        parse_headers(["=1"], ValueEncoding.TEXT)
    with pytest.raises(CommandFailed, match="--value"):
        from_text("x", Shape(codings=Codings(value=ValueEncoding.INT8)))
