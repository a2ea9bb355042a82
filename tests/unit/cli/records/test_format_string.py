"""Format strings for records."""

import pytest

from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.records.format_string import Codings, PrintableRecord, Template
from headrace.cli.records.record_output import printer_of
from headrace.cli.records.value_encoding import ValueEncoding

RECORD = PrintableRecord(
    topic="orders",
    partition=3,
    offset=42,
    timestamp_ms=1_769_860_800_123,
    key=b"k",
    value="wörld".encode(),
    headers=[("a", b"1"), ("b", None)],
    leader_epoch=7,
)
TOMBSTONE = PrintableRecord("orders", 0, 0, -1, b"gone", None)


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("%t-%p@%o", "orders-3@42"),
        (r"%k=%v\n", "k=wörld\n"),
        ("%h", "a=1,b"),
        ("%d", "1769860800123"),
        ("%d{iso}", "2026-01-31T12:00:00.123Z"),
        ("%d{%Y/%m}", "2026/01"),
        ("%K %V", "1 6"),
        ("%e %i", "7 9"),
        ("100%%", "100%"),
        (r"a\tb\\\x41", "a\tb\\A"),
        ("%s %S %T", "wörld 6 1769860800123"),
    ],
)
def test_fields_and_escapes_stand_for_what_they_say(template: str, shown: str) -> None:
    assert Template(template).render(RECORD, Codings(), 9).decode() == shown


def test_null_is_nothing_and_has_length_minus_one() -> None:
    assert Template("[%v] %V").render(TOMBSTONE, Codings()) == b"[] -1"


@pytest.mark.parametrize("template", ["%q", "%", "100%", r"\q", "trailing\\", "%d{iso"])
def test_a_wrong_format_is_a_mistake_that_says_what_is_known(template: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        Template(template)
    assert caught.value.code is ExitCode.USAGE


def test_text_shows_values_and_on_demand_keys_and_headers() -> None:
    assert printer_of("text", Codings())(RECORD, 1).decode() == "wörld\n"
    with_key = printer_of("text", Codings(), key_separator=r"\t")
    assert with_key(RECORD, 1).decode() == "k\twörld\n"
    with_percent = printer_of("text", Codings(), key_separator="%")
    assert with_percent(RECORD, 1).decode() == "k%wörld\n"
    with_headers = printer_of("text", Codings(), headers=True)
    assert with_headers(RECORD, 1).decode() == "a=1,b\twörld\n"


def test_json_is_one_object_a_line() -> None:
    (line,) = printer_of("json", Codings())(RECORD, 1).decode().splitlines()
    assert line == (
        '{"topic": "orders", "partition": 3, "offset": 42, "timestamp": 1769860800123, '
        '"key": "k", "value": "wörld", '
        '"headers": [{"key": "a", "value": "1"}, {"key": "b", "value": null}]}'
    )


def test_yaml_is_one_document_a_record() -> None:
    assert printer_of("yaml", Codings())(TOMBSTONE, 1).decode() == (
        "---\ntopic: orders\npartition: 0\noffset: 0\ntimestamp: -1\nkey: gone\nvalue: null\n"
        "headers: []\n"
    )


def test_a_word_that_is_no_format_is_refused() -> None:
    with pytest.raises(CommandFailed, match="text, json, yaml or a format"):
        printer_of("xml", Codings())


def test_a_value_of_another_kind_names_its_record_and_the_way_out() -> None:
    show = printer_of("text", Codings(value=ValueEncoding.INT32))
    with pytest.raises(
        CommandFailed, match=r"orders-3 offset 42: int32 needs 4 bytes, not 6.*--value-decoder"
    ):
        show(RECORD, 1)
