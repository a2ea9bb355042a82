"""A record that is not a JSON object gets the one cause that applies, with real numbers."""

import pytest

from headrace.pipeline.formats.not_json import MAX_DEPTH, MAX_DIGITS, UNREADABLE, not_json_reason
from headrace.pipeline.formats.schema import parse_ddl
from headrace.pipeline.formats.schema_mismatch import Explanation

NESTED = b'{"q":' + b"[" * 2000 + b"]" * 2000 + b"}"
LONG_NUMBER = b'{"q":' + b"9" * 5000 + b"}"

CAUSES = [
    (b"", "is empty, not a JSON object"),
    (b" \n", "is empty, not a JSON object"),
    (b"null", "is the JSON value null, not an object"),
    (b"5", "is a JSON number, not an object"),
    (b'"x"', "is a JSON string, not an object"),
    (b"true", "is a JSON boolean, not an object"),
    (b'[{"id":1}]', "is a JSON array, not an object"),
    (b'{"id":1', "is incomplete JSON: it ends after 7 characters"),
    (b'{"id":', "is incomplete JSON: it ends after 6 characters"),
    (b'{"name":"An', "is incomplete JSON: it ends after 11 characters"),
    (b'{"ok":tr', "is incomplete JSON: it ends after 8 characters"),
    (b'{"id":1} xyz', "has text after the JSON value, at character 10"),
    (b'{"id":1}\x00', "has text after the JSON value, at character 9"),
    (b"{'id':1}", "is not JSON: expecting property name enclosed in double quotes at character 2"),
    (b'{"id":01}', "is not JSON: expecting ',' delimiter at character 8"),
    (b'{"id":1,"s":"a\nb"}', "is not JSON: invalid control character at character 15"),
    (b'{"id":NaN}', "has the number NaN, which JSON does not have"),
    (b'\xef\xbb\xbf{"id":1}', "starts with a byte order mark, which JSON does not allow"),
    (b'{"id":1,"id":"x"}', "has the same key twice in one object"),
    (NESTED, f"is nested 2,001 levels deep; at most {MAX_DEPTH} can be read"),
    (LONG_NUMBER, "has a number of 5,000 digits; at most 1,000 can be read"),
    (b'{"id":"' + b"[" * 3000 + b'"}', UNREADABLE),
]


@pytest.mark.parametrize(("record", "reason"), CAUSES, ids=range(len(CAUSES)))
def test_the_message_names_the_one_cause(record: bytes, reason: str) -> None:
    explanation = Explanation(parse_ddl("id BIGINT"))
    assert explanation.message(record, None, UNREADABLE, open_=False) == reason


def test_the_limits_themselves_are_not_exceeded() -> None:
    deep = b'{"q":' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}"
    long = b'{"q":' + b"9" * MAX_DIGITS + b"}"
    assert not_json_reason(deep) == not_json_reason(long) == UNREADABLE


def test_a_key_gets_its_own_cause() -> None:
    explanation = Explanation(None, parse_ddl("id BIGINT"))
    said = explanation.message(b"{}", b"{", f"the key {UNREADABLE}", open_=True)
    assert said == "the key is incomplete JSON: it ends after 1 character"


def test_another_message_of_the_same_class_stays() -> None:
    said = "has half of a surrogate pair, which is not a character"
    explanation = Explanation(parse_ddl("id BIGINT"))
    assert explanation.message(b'{"s":"\\ud800"}', None, said, open_=True) == said
