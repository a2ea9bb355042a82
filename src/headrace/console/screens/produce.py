"""Produce: one record, new or a copy of an existing one."""

import base64
from random import SystemRandom
from typing import Final

from starlette.responses import Response

from headrace.client.errors import ClientError
from headrace.client.results import TopicPartition
from headrace.console.messages.decoding import Coding, from_text
from headrace.console.messages.log_reader import read_record
from headrace.console.messages.produce import NewRecord, choose_partition, produce
from headrace.console.messages.query import BadQuery, time_of
from headrace.console.screens.topic_lookup import topic_of
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.screen import Screen, get, post

NULL: Final = "null"
CODINGS: Final = ("text", "json", "hex", "base64", NULL)
MAX_HEADERS: Final = 200
MAX_COPIED_BYTES: Final = 2 * 1024 * 1024


async def show(page: Page) -> Response:
    topic = await topic_of(page)
    form = {
        "partition": "",
        "key": "",
        "key_as": NULL,
        "value": "",
        "value_as": "json",
        "headers": "",
        "timestamp": "",
    }
    source = page.query("copy")
    if source:
        form = await _copied(page, topic.name, source)
    return page.render("produce.html", topic=topic, form=form, codings=CODINGS, problem="")


async def send(page: Page) -> Response:
    topic = await topic_of(page)
    try:
        record, partition = _record(page)
        if partition is None:
            numbers = [each.partition for each in topic.partitions]
            partition = choose_partition(record.key, numbers, SystemRandom())
        if not 0 <= partition < len(topic.partitions):
            raise ValueError(f"partition {partition} does not exist")
        where = TopicPartition(topic.name, partition)
        offset = await produce(page.client, where, record, timeout_s=page.timeout_s)
    except (ValueError, BadQuery, ClientError) as error:
        status = 502 if isinstance(error, ClientError) else 400
        names = ("partition", "key", "key_as", "value", "value_as", "headers", "timestamp")
        form = {name: page.field(name) for name in names}
        return page.render(
            "produce.html",
            status=status,
            topic=topic,
            form=form,
            codings=CODINGS,
            problem=f"Not written: {error}",
        )
    page.flash(f"Written to {where} at offset {offset:,}.")
    return page.redirect(f"/topics/{topic.name}/messages/{partition}/{offset}")


def _record(page: Page) -> tuple[NewRecord, int | None]:
    timestamp = page.field("timestamp").strip()
    chosen = page.field("partition").strip()
    if chosen and not (chosen.isascii() and chosen.isdecimal() and len(chosen) < 10):
        raise ValueError(f"partition {chosen[:20]!r} is not a number")
    record = NewRecord(
        _bytes_of(page, "key"),
        _bytes_of(page, "value"),
        headers_of(page.field("headers")),
        time_of(timestamp) if timestamp else page.console.clock.wall_ms(),
    )
    return record, int(chosen) if chosen else None


def _bytes_of(page: Page, name: str) -> bytes | None:
    coding = page.field(f"{name}_as")
    if coding == NULL:
        return None
    if coding not in CODINGS:
        raise ValueError(f"{name}: unknown encoding {coding[:20]!r}")
    # Browsers send line breaks of a text area as CR LF.
    text = page.field(name).replace("\r\n", "\n")
    try:
        return from_text(text, Coding(coding))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def headers_of(text: str) -> tuple[tuple[str, bytes | None], ...]:
    """One `name=value` on each line; `name` alone has a null value. `name:=base64` has bytes."""
    found: list[tuple[str, bytes | None]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        is_base64 = bool(equals) and name.endswith(":")
        name = name.removesuffix(":") if is_base64 else name
        if not name.strip():
            raise ValueError(f"headers: {line[:40]!r} has no name")
        data = from_text(value, Coding.BASE64 if is_base64 else Coding.TEXT) if equals else None
        found.append((name.strip(), data))
        if len(found) > MAX_HEADERS:
            raise ValueError(f"headers: more than {MAX_HEADERS}")
    return tuple(found)


async def _copied(page: Page, topic: str, source: str) -> dict[str, str]:
    """The form for a copy of the record at `partition/offset`."""
    partition, _, offset = source.partition("/")
    if not (partition.isdecimal() and offset.isdecimal() and len(source) < 40):
        raise PageError(400, "No such record", f"{source[:40]!r} is not PARTITION/OFFSET.")
    where = TopicPartition(topic, int(partition))
    found = await read_record(page.client, where, int(offset), timeout_s=page.timeout_s)
    if found is None:
        raise PageError(404, "No such record", f"{where} has no record at offset {offset}.")
    record = found.record
    if len(record.value or b"") + len(record.key or b"") > MAX_COPIED_BYTES:
        raise PageError(
            413,
            "Too large",
            "The record is too large for a form: use headrace produce.",
        )
    key, key_as = _text_of(record.key)
    value, value_as = _text_of(record.value)
    lines = [_header_line(name, data) for name, data in record.headers]
    return {
        "partition": partition,
        "key": key,
        "key_as": key_as,
        "value": value,
        "value_as": value_as,
        "headers": "\n".join(lines),
        "timestamp": "",
    }


def _text_of(data: bytes | None) -> tuple[str, str]:
    """The text for a field that gives the same bytes again, and its encoding."""
    if data is None:
        return "", NULL
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"
    is_clean = all(char.isprintable() or char in "\n\t" for char in text)
    return (text, "text") if is_clean else (base64.b64encode(data).decode(), "base64")


def _header_line(name: str, data: bytes | None) -> str:
    if data is None:
        return name
    text, coding = _text_of(data)
    if coding == "text" and "\n" not in text:
        return f"{name}={text}"
    return f"{name}:={base64.b64encode(data).decode()}"


SCREEN: Final = Screen(
    "topics",
    (
        get("/topics/{topic}/produce", show),
        post("/topics/{topic}/produce", send),
    ),
)
