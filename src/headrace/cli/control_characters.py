"""Control characters in text that goes to a terminal. Pure.

A record may hold bytes that clear the screen, move the cursor or reverse the direction of text
(ESC [ 2 J, U+009B, U+202E). On a terminal they are printed as escapes. Newline and tab stay.
"""

import re
from typing import Final

# C0 but for tab and newline, DEL and C1, and the characters that change the direction of text.
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_LAST_C0: Final = 0x1F


def escape_controls(text: str) -> str:
    r"""The text with control characters as \xNN or \uNNNN.

    JSON and quoted YAML never hold a C0 character, and read \uNNNN back: they stay valid.
    """
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code <= _LAST_C0 else f"\\u{code:04x}"
