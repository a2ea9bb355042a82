"""Dead-letter topics are found by name; bytes survive the form unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.console.cluster.snapshot import TopicState, topic_state
from headrace.console.screens.dead_letter_form import (
    bytes_of,
    content_of,
    digest_of,
    group_key_of,
    headers_of,
    letter_topics,
    pretty,
)
from headrace.console.web.errors import PageError


def topic(name: str) -> TopicState:
    return topic_state(name, bytes(16), is_internal=False, partitions=())


def test_topics_are_found_by_their_names_and_by_their_replays() -> None:
    names = (
        "orders", "orders.dlq", "orders.dlq.replayed", "dead-letters", "my_dead_letter_topic",
        "DLT", "adlqb", "bad", "bad.replayed",
    )  # fmt: skip
    found = {each.topic.name: each.has_ledger for each in letter_topics(map(topic, names))}
    assert found == {
        "orders.dlq": True, "dead-letters": False, "my_dead_letter_topic": False, "DLT": False,
        "bad": True,
    }  # fmt: skip


@given(st.none() | st.binary(max_size=200))
def test_bytes_survive_the_form(data: bytes | None) -> None:
    content = content_of(data)
    expected = data
    if content.encoding == "text":  # browsers send CR LF for a line break, which becomes LF
        expected = content.text.replace("\r\n", "\n").encode()
    assert bytes_of(content.encoding, content.text, "value") == expected


def test_line_breaks_of_a_browser_become_those_of_the_record() -> None:
    assert bytes_of("text", "a\r\nb", "value") == b"a\nb"


def test_bad_base64_is_refused() -> None:
    with pytest.raises(PageError, match="Nothing was sent"):
        bytes_of("base64", "a b!", "value")


def test_values_are_shown_as_json_text_or_hexadecimal() -> None:
    assert pretty(b'{"a":1}') == '{\n  "a": 1\n}'
    assert pretty(b"plain") == "plain"
    assert pretty(b"\xff\x00") == "ff 00"
    assert pretty(None) == "null"
    assert len(pretty(b"x" * 1_000_000)) <= 20_000


def test_headers_are_name_and_value() -> None:
    assert headers_of("a=1\n\nb=x=y\n") == (("a", b"1"), ("b", b"x=y"))
    with pytest.raises(PageError):
        headers_of("no value")


def test_a_selection_is_the_key_of_a_group() -> None:
    assert group_key_of('["p", "s", "e", "m"]') == ("p", "s", "e", "m")
    for text in ("", "[]", '["p"]', "[1, 2, 3, 4]", '"abcd"'):
        with pytest.raises(PageError):
            group_key_of(text)
    assert digest_of(("p", "s", "e", "m")) != digest_of(("p", "s", "e", "n"))
