"""One record: decoded, with its batch; its key and value as downloads."""

import base64
import json
from typing import Final

from starlette.responses import Response

from headrace.client.results import TopicPartition
from headrace.console.messages.decoding import SHOWN_BYTES, Coding, Decoded, Decoder, visible
from headrace.console.messages.log_reader import read_record
from headrace.console.messages.scan import Match
from headrace.console.screens.messages import CODINGS, decoder_of
from headrace.console.screens.topic_lookup import topic_of
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.screen import Screen, get
from headrace.records.record import Record

PATH: Final = "/topics/{topic}/messages/{partition:int}/{offset:int}"
MAX_DECODED_BYTES: Final = 1024 * 1024
MAX_COPIED_BYTES: Final = 256 * 1024
"""A larger record is downloaded, not copied."""


async def show(page: Page) -> Response:
    topic = await topic_of(page)
    match = await _match(page, topic.name)
    record, header = match
    coding = page.query("as", "auto")
    decoder = decoder_of(page)
    value = _decoded(decoder, record.value, Coding(coding) if coding in CODINGS else Coding.AUTO)
    small = _size(record.value) + _size(record.key) <= MAX_COPIED_BYTES
    return page.render(
        "record.html",
        topic=topic,
        record=record,
        header=header,
        partition=page.request.path_params["partition"],
        bounds=topic.partitions[page.request.path_params["partition"]],
        key=_decoded(decoder, record.key, Coding.AUTO),
        value=value,
        shown=value.text[:SHOWN_BYTES],
        truncated=len(value.text) > SHOWN_BYTES or _size(record.value) > MAX_DECODED_BYTES,
        value_size=_size(record.value),
        key_size=_size(record.key),
        headers=[
            (visible(name), _decoded(decoder, data, Coding.AUTO)) for name, data in record.headers
        ],
        codings=CODINGS,
        coding=coding,
        copied=record_json(topic.name, page.request.path_params["partition"], record)
        if small
        else "",
    )


async def value(page: Page) -> Response:
    return await _download(page, "value")


async def key(page: Page) -> Response:
    return await _download(page, "key")


async def _download(page: Page, part: str) -> Response:
    topic = await topic_of(page)
    record = (await _match(page, topic.name)).record
    data = record.value if part == "value" else record.key
    if data is None:
        raise PageError(404, "Nothing to download", f"The {part} of this record is null.")
    partition = page.request.path_params["partition"]
    name = f"{topic.name}-{partition}-{record.offset}.{part}.bin"
    return Response(
        data,
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Content-Security-Policy": "default-src 'none'; sandbox",
        },
    )


async def _match(page: Page, topic: str) -> Match:
    partition, offset = page.request.path_params["partition"], page.request.path_params["offset"]
    state = (await page.snapshot()).topics[topic]
    if partition >= len(state.partitions):
        raise PageError(404, "No such partition", f"{topic} has no partition {partition}.")
    where = TopicPartition(topic, partition)
    found = await read_record(page.client, where, min(offset, 2**63 - 2), timeout_s=page.timeout_s)
    if found is None:
        raise PageError(
            404,
            "No such record",
            f"{where} has no record at offset {offset:,}: it was compacted away, it is the marker "
            "of a transaction, or it is not written yet.",
        )
    return found


def _decoded(decoder: Decoder, data: bytes | None, coding: Coding) -> Decoded:
    if data is not None and len(data) > MAX_DECODED_BYTES:
        return decoder.decode(
            data[:MAX_DECODED_BYTES], Coding.TEXT if coding is Coding.AUTO else coding
        )
    return decoder.decode(data, coding)


def _size(data: bytes | None) -> int:
    return 0 if data is None else len(data)


def record_json(topic: str, partition: int, record: Record) -> str:
    """The record for the clipboard: bytes that are not UTF-8 are in base64."""
    return json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            **_text_field("key", record.key),
            **_text_field("value", record.value),
            "headers": [
                {"name": name, **_text_field("value", data)} for name, data in record.headers
            ],
        },
        indent=2,
    )


def _text_field(name: str, data: bytes | None) -> dict[str, object]:
    if data is None:
        return {name: None}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {name: text}
    return {name: parsed if isinstance(parsed, dict | list) else text}


SCREEN: Final = Screen(
    "topics",
    (get(PATH, show), get(PATH + "/value", value), get(PATH + "/key", key)),
)
