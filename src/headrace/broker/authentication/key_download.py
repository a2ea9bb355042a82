"""Downloads a JSON Web Key Set.

Limits: no redirects, no proxies, at most `MAX_BYTES`, and `TIMEOUT_S` for the whole download,
however slowly the server answers.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from headrace.broker.runtime.offload import Offload

MAX_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 10.0
HTTPS_PORT: Final = 443
HTTP_PORT: Final = 80
_OK: Final = b"200"


class DownloadFailed(Exception):
    """The keys could not be downloaded; the message has the reason."""


async def download(url: str, offload: Offload) -> bytes:
    """The contents of an https, http or file URL; raises `DownloadFailed`.

    The settings have checked the URL (`cluster/sasl_settings.py`).
    """
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            if parts.scheme == "file":
                return await offload(_read_file, Path(unquote(parts.path)))
            return body_of(await _get(parts))
    except TimeoutError:
        raise DownloadFailed(f"not complete after {TIMEOUT_S:g} s") from None
    except OSError as error:
        raise DownloadFailed(f"{type(error).__name__}: {error}") from error


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return _within_limit(file.read(MAX_BYTES + 1))


async def _get(parts: SplitResult) -> bytes:
    """The whole response."""
    host = parts.hostname or ""
    is_https = parts.scheme == "https"
    context = ssl.create_default_context() if is_https else None
    port = parts.port or (HTTPS_PORT if is_https else HTTP_PORT)
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = (
            f"GET {target} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Accept: application/json",
            "Connection: close",
        )
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        response = bytearray()
        while chunk := await reader.read(MAX_BYTES):
            response += chunk
            _within_limit(response)
        return bytes(response)
    finally:
        writer.transport.abort()


def body_of(response: bytes) -> bytes:
    """The body of an HTTP response; raises `DownloadFailed` unless it is complete, with status
    200."""
    head, blank_line, body = response.partition(b"\r\n\r\n")
    status_line, *header_lines = head.split(b"\r\n")
    status = status_line.split(b" ")[1:2]
    if not blank_line or not status_line.startswith(b"HTTP/1.") or status != [_OK]:
        raise DownloadFailed(f"the server answered {status_line[:64]!r}")
    pairs = (line.partition(b":") for line in header_lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return _dechunked(body)
    length = headers.get(b"content-length")
    if length is not None and length != str(len(body)).encode():
        raise DownloadFailed(f"the server sent {len(body)} bytes of {length[:20]!r}")
    return body


def _dechunked(body: bytes) -> bytes:
    found = bytearray()
    rest = body
    while True:
        size_line, _, rest = rest.partition(b"\r\n")
        try:
            size = int(size_line.split(b";")[0], 16)
        except ValueError:
            raise DownloadFailed("the server sent an invalid or incomplete chunk") from None
        if size == 0:
            return bytes(found)
        if not 0 < size <= len(rest):
            raise DownloadFailed("the server sent an invalid or incomplete chunk")
        found += rest[:size]
        rest = rest[size + 2 :]


def _within_limit(data: bytes | bytearray) -> bytes:
    if len(data) > MAX_BYTES:
        raise DownloadFailed(f"larger than {MAX_BYTES} bytes")
    return bytes(data)
