"""Downloads of keys: their limits, and servers that answer with something else."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from headrace.broker.authentication import key_download
from headrace.broker.authentication.key_download import (
    MAX_BYTES,
    DownloadFailed,
    body_of,
    download,
)
from headrace.broker.runtime.offload import ThreadOffload

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"


def fetch(url: str) -> bytes:
    async def main() -> bytes:
        offload = ThreadOffload(asyncio.get_running_loop())
        try:
            return await download(url, offload)
        finally:
            offload.close()

    return asyncio.run(main())


def served(answer: Callable[[StreamRequestHandler], None]) -> bytes:
    """What the download from a server that answers like this returns."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            answer(self)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            return fetch(f"http://127.0.0.1:{server.server_address[1]}/keys?x=1")
        finally:
            server.shutdown()
            thread.join()


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "the keys.json"
    path.write_bytes(b"{}")
    assert fetch(path.as_uri()) == b"{}"


def test_a_missing_or_huge_file_fails(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    with pytest.raises(DownloadFailed, match="FileNotFoundError"):
        fetch(path.as_uri())
    path.write_bytes(bytes(MAX_BYTES + 1))
    with pytest.raises(DownloadFailed, match="larger than"):
        fetch(path.as_uri())


def test_a_server_is_asked() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    assert served(lambda to: to.wfile.write(head + b"{}")) == b"{}"  # type: ignore[func-returns-value]


def test_a_redirect_is_not_followed() -> None:
    """CVE-2025-27817: a server that points to an internal one."""
    head = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"
    with pytest.raises(DownloadFailed, match="302"):
        served(lambda to: to.wfile.write(head))  # type: ignore[arg-type, return-value]


def test_an_endless_answer_is_not_stored() -> None:
    def answer(to: StreamRequestHandler) -> None:
        to.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                to.wfile.write(bytes(1 << 16))
        except OSError:
            pass

    with pytest.raises(DownloadFailed, match="larger than"):
        served(answer)


def test_a_slow_answer_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_download, "TIMEOUT_S", 0.1)
    waiting = threading.Event()
    with pytest.raises(DownloadFailed, match=r"not complete after 0\.1 s"):
        served(lambda _: waiting.wait(0.5) and None)


def test_no_server_fails() -> None:
    with pytest.raises(DownloadFailed):
        fetch("http://127.0.0.1:1/keys")


@pytest.mark.parametrize(
    ("response", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        (b"HTTP/1.0 200 OK\r\n\r\nabc", b"abc"),
        (CHUNKED + b"2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n", b"abc"),
    ],
)
def test_a_complete_response_has_a_body(response: bytes, body: bytes) -> None:
    assert body_of(response) == body


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 404 Not Found\r\n\r\n",
        b"SSH-2.0 200 x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
        CHUNKED + b"5\r\nab\r\n",
        CHUNKED + b"2\r\nab\r\n",
        CHUNKED + b"-2\r\nab\r\n",
        CHUNKED + b"x\r\n",
    ],
)
def test_an_incomplete_or_other_response_fails(response: bytes) -> None:
    with pytest.raises(DownloadFailed):
        body_of(response)
