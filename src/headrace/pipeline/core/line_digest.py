"""A digest that identifies a line of a file without storing the line. Pure."""

import hashlib
from typing import Final

Digest = bytes
DIGEST_BYTES: Final = 16


def digest_of(line: bytes) -> Digest:
    """The digest of a line, without surrounding white space and with invalid UTF-8 replaced.

    A line of a file and the text that a reader made of it have the same digest.
    """
    text = line.decode("utf-8", "replace").strip()
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()
