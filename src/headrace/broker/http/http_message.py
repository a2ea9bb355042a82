"""Requests and responses of the HTTP port, without sockets."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"


class HttpRequest(NamedTuple):
    """A request; the names of `headers` are in lower case, and the last of a name counts."""

    method: str
    path: str
    headers: Mapping[str, str]
    host: str
    """The address of the client."""


class HttpResponse(NamedTuple):
    """A response. `body` is in parts, so that a large one need not be copied."""

    status: int
    content_type: str
    body: Sequence[bytes]
    headers: tuple[tuple[str, str], ...] = ()


def text_response(
    status: int, text: str, headers: tuple[tuple[str, str], ...] = ()
) -> HttpResponse:
    return HttpResponse(status, TEXT, (text.encode() + b"\n",), headers)


def json_response(status: int, value: object) -> HttpResponse:
    return HttpResponse(status, JSON, (json.dumps(value, indent=2).encode() + b"\n",))


def accepts(header: str, wanted: str) -> float:
    """The quality that an Accept or Accept-Encoding header gives to a value, from 0 to 1.

    The parameters of a media type must not contradict those of `wanted`; a wildcard accepts it.
    """
    best = 0.0
    name, parameters = _parse(wanted)
    for item in header.split(","):
        offered, given = _parse(item)
        if offered not in (name, "*/*", "*", f"{name.partition('/')[0]}/*"):
            continue
        try:
            quality = float(given.pop("q", "1"))
        except ValueError:
            continue
        if all(given.get(key, value) == value for key, value in parameters.items()):
            best = max(best, min(quality, 1.0))
    return best


def _parse(item: str) -> tuple[str, dict[str, str]]:
    name, *parameters = (part.strip() for part in item.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    return name.lower(), {
        key.strip().lower(): value.strip().strip('"').lower() for key, _, value in pairs
    }
