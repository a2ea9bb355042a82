"""What a line of a file is found by, without keeping the line. Pure."""

import hashlib
from typing import Final

Digest = bytes
DIGEST_BYTES: Final = 16


def digest_of(line: bytes) -> Digest:
    """The same for a line of a file and for what a reader made of it."""
    text = line.decode("utf-8", "replace").strip()
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()
