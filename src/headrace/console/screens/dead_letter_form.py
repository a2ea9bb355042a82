"""Dead letters on the console: which topics, which letters, and an edited record. Pure."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from headrace.console.cluster.snapshot import TopicState
from headrace.console.web.errors import PageError

LEDGER_SUFFIX: Final = ".replayed"
MAX_SHOWN_CHARS: Final = 20_000
_LIKELY: Final = re.compile(r"(^|[._-])(dlq|dlt|dead[._-]?letters?)([._-]|$)", re.IGNORECASE)
TEXT: Final = "text"
BASE64: Final = "base64"
NULL: Final = "null"


class LetterTopic(NamedTuple):
    """A topic that probably holds dead letters."""

    topic: TopicState
    has_ledger: bool
    """Whether letters of it have been sent again."""


def letter_topics(topics: Iterable[TopicState]) -> list[LetterTopic]:
    """The topics named as dead-letter topics are, and those with a ledger of replays."""
    by_name = {topic.name: topic for topic in topics}
    found = []
    for name, topic in sorted(by_name.items()):
        has_ledger = f"{name}{LEDGER_SUFFIX}" in by_name
        if has_ledger or (_LIKELY.search(name) and not name.endswith(LEDGER_SUFFIX)):
            found.append(LetterTopic(topic, has_ledger))
    return found


def digest_of(key: Sequence[str]) -> str:
    """A short name for an error group, for addresses."""
    return hashlib.sha256(json.dumps(list(key)).encode()).hexdigest()[:16]


class Content(NamedTuple):
    """Bytes as a page shows and edits them: as text if they are UTF-8, else in base64."""

    encoding: str
    text: str
    size: int
    is_cut: bool = False

    @property
    def shown(self) -> str:
        return self.text[:MAX_SHOWN_CHARS]


def content_of(data: bytes | None) -> Content:
    if data is None:
        return Content(NULL, "", 0)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = base64.b64encode(data).decode()
        return Content(BASE64, text, len(data), len(text) > MAX_SHOWN_CHARS)
    return Content(TEXT, text, len(data), len(text) > MAX_SHOWN_CHARS)


def pretty(data: bytes | None) -> str:
    """JSON with line breaks; other text as it is; bytes that are no text in hexadecimal."""
    if data is None:
        return "null"
    try:
        text = data[: 4 * MAX_SHOWN_CHARS].decode()
    except UnicodeDecodeError:
        return data[: MAX_SHOWN_CHARS // 3].hex(" ")
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return text[:MAX_SHOWN_CHARS]


def bytes_of(encoding: str, text: str, what: str) -> bytes | None:
    """The edited bytes; raises `PageError`."""
    if encoding == NULL:
        return None
    if encoding == BASE64:
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            raise bad(f"The {what} is no base64") from None
    # Browsers submit line breaks of a text field as CR LF.
    return text.replace("\r\n", "\n").encode()


def headers_of(text: str) -> tuple[tuple[str, bytes | None], ...]:
    """Headers, one NAME=VALUE on each line; raises `PageError`."""
    found: list[tuple[str, bytes | None]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise bad(f"{line[:60]!r} is no header NAME=VALUE")
        found.append((name.strip(), value.encode()))
    return tuple(found)


def group_key_of(text: str) -> tuple[str, ...]:
    """The key of an error group in a hidden field; raises `PageError`."""
    try:
        key = json.loads(text)
    except ValueError:
        key = None
    if not (isinstance(key, list) and len(key) == 4 and all(isinstance(e, str) for e in key)):
        raise bad("The selection cannot be read; go back and choose again")
    return tuple(key)


def bad(detail: str) -> PageError:
    return PageError(400, "The form is incomplete", f"{detail}. Nothing was sent.")
