"""server.properties is parsed as in Java."""

import pytest

from headrace.cluster.java_properties import BadProperties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("  \t a=b", {"a": "b"}),
        ("# a=b\n! c=d\n\n e=f", {"e": "f"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b,\\\n   c,\\\n   d", {"a": "b,c,d"}),
        ("a=b\\", {"a": "b"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a=\\t\\n\\u00e9\\q", {"a": "\t\né" + "q"}),
        ("a=\\ud83d\\ude42", {"a": "🙂"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=b # not a comment", {"a": "b # not a comment"}),
        ("a=x\\\n# y", {"a": "x# y"}),
        ("a=x\x85y", {"a": "x\x85y"}),
        ("\\\n\na=b", {"a": "b"}),
        ("", {}),
    ],
)
def test_properties_are_parsed_as_in_java(text: str, expected: dict[str, str]) -> None:
    assert read_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz", "a=\\u+123"])
def test_a_broken_escape_names_its_line(text: str) -> None:
    with pytest.raises(BadProperties, match="line 2"):
        read_properties("# first\n" + text)
