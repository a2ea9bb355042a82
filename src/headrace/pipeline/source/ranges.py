"""Exact offset ranges as JSON: the runner passes them to the source as an option. Pure."""

import json
from collections.abc import Iterable

from headrace.pipeline.core.offsets import BadOffsets, OffsetRange


def ranges_to_json(ranges: Iterable[OffsetRange]) -> str:
    return json.dumps([list(each) for each in ranges])


def ranges_from_json(text: str) -> list[OffsetRange]:
    try:
        return [
            OffsetRange(str(topic), int(partition), int(start), int(end))
            for topic, partition, start, end in json.loads(text)
        ]
    except (ValueError, TypeError) as error:
        form = '[["topic", 0, 5, 9]]'
        raise BadOffsets(f"{text!r} does not have the form {form} ({error})") from None
