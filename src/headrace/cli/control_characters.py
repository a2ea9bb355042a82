"""Escapes control characters in text for a terminal. Pure.

A record may contain characters that clear the screen, move the cursor or reverse the direction of
text (ESC [ 2 J, U+009B, U+202E). A terminal gets them as escapes. Newline and tab stay.
"""

import re
from typing import Final

# C0 without tab and newline, DEL, C1, and the characters that change the direction of text.
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_LAST_C0: Final = 0x1F


def escape_controls(text: str) -> str:
    r"""The text with control characters as \xNN or \uNNNN.

    JSON and quoted YAML contain no C0 characters and can contain \uNNNN: they stay valid.
    """
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code <= _LAST_C0 else f"\\u{code:04x}"
