"""Any text parses as properties or raises one documented error; written properties round-trip."""

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster.java_properties import BadProperties, read_properties
from headrace.cluster.settings import BrokerSettings, InvalidSetting


def written(text: str, *, name: bool) -> str:
    """A text as Java's Properties.store would write it."""
    out = []
    for position, character in enumerate(text):
        if character == " " and not (name or position == 0):
            out.append(character)
        elif character in "\\ =:#!":
            out.append("\\" + character)
        elif not 32 <= ord(character) < 127 and ord(character) < 0x10000:
            out.append(f"\\u{ord(character):04x}")
        else:
            out.append(character)
    return "".join(out)


TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_written_properties_are_read_back_unchanged(values: dict[str, str]) -> None:
    lines = [
        f"{written(key, name=True)}={written(item, name=False)}" for key, item in values.items()
    ]
    assert read_properties("\n".join(lines)) == values


@given(st.text(max_size=60))
def test_any_text_parses_as_properties_or_raises_the_documented_error(text: str) -> None:
    try:
        found = read_properties(text)
    except BadProperties:
        return
    assert all(isinstance(item, str) for pair in found.items() for item in pair)


@given(st.text(st.sampled_from("ab=:#! \\\t\f\r\nu0e9d83tq") | st.characters(), max_size=60))
def test_any_text_parses_as_in_javaproperties(text: str) -> None:
    try:
        expected = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError:
        with pytest.raises(BadProperties):
            read_properties(text)
    else:
        assert read_properties(text) == expected


@given(
    st.dictionaries(
        st.sampled_from(
            ["listeners", "advertised.listeners", "listener.security.protocol.map", "node.id"]
        )
        | st.text(max_size=10),
        st.sampled_from(["PLAINTEXT://:1", "A://b:c", "A:SSL", "7"]) | st.text(max_size=20),
        max_size=4,
    )
)
def test_any_settings_are_accepted_or_rejected_by_name(values: dict[str, str]) -> None:
    try:
        settings = BrokerSettings.parse(values)
    except InvalidSetting as error:
        assert error.name in str(error)
    else:
        assert settings.listeners
        assert settings.node_id >= 0
