"""Dead letters: headers, filters, groups, the ledger."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.results import TopicPartition
from headrace.pipeline.dead_letters.dead_letter_reader import Letter
from headrace.pipeline.dead_letters.error_groups import grouped, pattern_of
from headrace.pipeline.dead_letters.filter import BadFilter, parse_filter
from headrace.pipeline.dead_letters.headers import (
    MAX_MESSAGE_BYTES,
    Facts,
    facts_of,
    letter_headers,
    own_headers,
    replayed_headers,
)
from headrace.pipeline.dead_letters.replay_ledger import ReplayLedger, joined
from headrace.records.record import Record

FACTS = Facts("orders", 1, 41, 1_000, "ParseError", "line 3: bad", "lake", 7, 2)


def letter(offset: int = 0, partition: int = 0, facts: Facts = FACTS, time_ms: int = 5) -> Letter:
    headers = letter_headers((("own", b"1"),), facts)
    record = Record(offset, time_ms, None, b"v", headers)
    return Letter(TopicPartition("dlq", partition), record, facts_of(headers))


def test_headers_describe_the_error_and_keep_the_records_headers() -> None:
    own = (("a", b"\xff"), ("a", None))
    headers = letter_headers(own, FACTS)
    assert facts_of(headers) == FACTS
    assert own_headers(headers) == own
    assert headers[: len(own)] == own


def test_a_dead_letter_of_a_line_names_its_file_and_no_topic() -> None:
    line = Facts("", -1, -1, 1_000, "NotJson", "m", "lake", 7, -1, file="/in/a.json", line=3)
    headers = letter_headers((), line)
    assert facts_of(headers) == line
    assert (line.source, line.place) == ("/in", "/in/a.json line 3")
    row = replace(line, file="lake/x.parquet", line=-1, row=0, version=4)
    assert row.place == "lake/x.parquet row 0 of version 4"
    names = {name for name, _ in headers}
    assert not names & {f"headrace.dlq.source.{each}" for each in ("topic", "offset", "row")}
    found = letter(facts=line)
    assert parse_filter("source.file ~ a.json and source.line = 3 and source.row < 0")(found)


def test_a_replayed_record_counts_its_attempts() -> None:
    once = (("own", b"1"), *replayed_headers(letter_headers((), FACTS), "dlq", 0, 3))
    failed_again = letter_headers(once, FACTS)
    assert facts_of(failed_again).attempts == 1
    twice = replayed_headers(failed_again, "dlq", 0, 9)
    assert facts_of(twice).attempts == 2


def test_the_last_of_two_headers_with_one_name_is_the_pipelines() -> None:
    forwarded = letter_headers(letter_headers((), FACTS), replace(FACTS, topic="other"))
    assert facts_of(forwarded).topic == "other"


def test_a_message_is_truncated_between_characters() -> None:
    long = Facts("t", 0, 0, 0, "E", "é" * MAX_MESSAGE_BYTES, "p", 0, 1)
    message = facts_of(letter_headers((), long)).message
    assert len(message.encode()) <= MAX_MESSAGE_BYTES
    assert set(message) == {"é"}


def test_invalid_headers_do_not_raise() -> None:
    facts = facts_of((("headrace.dlq.source.offset", b"many"), ("headrace.dlq.pipeline", None)))
    assert (facts.offset, facts.pipeline, facts.topic) == (-1, "", "")


@pytest.mark.parametrize(
    ("where", "meant"),
    [
        ("", True),
        ("error = ParseError", True),
        ("error != ParseError", False),
        ("error ~ ^Parse", True),
        ("message ~ 'line [0-9]+: bad'", True),
        ('source.topic = "orders" and source.partition = 1', True),
        ("source.offset >= 41 AND source.offset < 42", True),
        ("source.offset > 41", False),
        ("pipeline = lake and batch = 7 and schema = 2 and attempts = 0", True),
        ("time >= 1970-01-01T00:00:00Z", True),
        ("source.time > 1970-01-01T00:00:01", False),
        ("time < 6", True),
    ],
)
def test_a_filter_compares_the_fields_of_dead_letters(where: str, meant: bool) -> None:
    assert parse_filter(where)(letter()) is meant


def test_a_dead_letter_must_match_all_filters() -> None:
    assert not parse_filter("error = ParseError", "batch = 8")(letter())


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("colour = red", "there is no field 'colour'"),
        ("error", "not a comparison"),
        ("offset = many", "is a number"),
        ("offset ~ 1", "~ is for text"),
        ("message ~ '['", "not a regular expression"),
        ("time > yesterday", "is a time such as"),
        ("error = A or error = B", "joined by `and`"),
        ("error = A and ", "ends with `and`"),
    ],
)
def test_an_invalid_filter_is_rejected_with_a_reason(where: str, said: str) -> None:
    with pytest.raises(BadFilter, match=said):
        parse_filter(where)


def test_messages_that_differ_in_values_are_one_pattern() -> None:
    assert pattern_of("line 3: expected ':'") == pattern_of("line 12:  expected '}'")
    assert pattern_of("amount > 0") != pattern_of("amount < 0")
    assert len(pattern_of("x" * 10_000)) < 200


def test_groups_are_counted_with_samples_and_times() -> None:
    other = Facts("orders", 1, 41, 1_000, "TooLarge", "9 bytes", "lake", 7, 2)
    letters = [letter(at, time_ms=at) for at in range(5)] + [letter(9, facts=other)]
    first, second = grouped(letters, lambda each: each.offset < 2, samples=2)
    assert (first.error, first.count, first.replayed, len(first.samples)) == ("ParseError", 5, 2, 2)
    assert (first.first_ms, first.last_ms) == (0, 4)
    assert (second.error, second.count) == ("TooLarge", 1)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), max_size=20))
def test_the_ledger_holds_exactly_the_added_offsets(spans: list[tuple[int, int]]) -> None:
    told = [(first, first + more) for first, more in spans]
    wanted = {at for first, last in told for at in range(first, last + 1)}
    ledger = ReplayLedger({0: told})
    assert {at for at in range(80) if letter(at) in ledger} == wanted
    assert letter(0, partition=1) not in ledger
    kept = joined(told)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(kept))
