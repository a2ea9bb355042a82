"""Tokens from files and from a token endpoint: limits, redirects, error messages."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from headrace.client.errors import AuthenticationFailed, BadSecurityFiles
from headrace.client.login.bearer_token import DEFAULT_LIFETIME_S, lifetime_s, read_token
from headrace.client.login.security import TokenSource

TIMEOUT_S = 5.0


@contextmanager
def token_endpoint(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """An endpoint with one answer; its URL, and the requests that it received."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            seen.append(f"{self.headers['Authorization']} {self.rfile.read(size).decode()}")
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_client_gets_a_token_for_its_id_and_secret() -> None:
    with token_endpoint(200, b'{"access_token": "a.b.c", "expires_in": 60}') as (url, seen):
        source = TokenSource(url, "the app", "s:cret", "read")
        assert read_token(source, timeout_s=TIMEOUT_S) == "a.b.c"
    login = base64.b64encode(b"the%20app:s%3Acret").decode()
    assert seen == [f"Basic {login} grant_type=client_credentials&scope=read"]


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (401, b"", {}),
        (302, b"", {"Location": "http://127.0.0.1:1/other"}),
        (200, b"no json", {}),
        (200, b"[]", {}),
        (200, b'{"access_token": 3}', {}),
        (200, b'{"access_token": "two words"}', {}),
        (200, b'{"access_token": "a\\u0001user=x"}', {}),
        (200, b'{"access_token": "' + b"x" * 300_000 + b'"}', {}),
    ],
)
def test_an_answer_without_a_token_is_an_error_without_the_secret(
    status: int, body: bytes, headers: dict[str, str]
) -> None:
    with (
        token_endpoint(status, body, **headers) as (url, _),
        pytest.raises(AuthenticationFailed) as raised,
    ):
        read_token(TokenSource(url, "app", "hush"), timeout_s=TIMEOUT_S)
    assert "hush" not in str(raised.value)
    assert url in str(raised.value)


def test_a_token_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    source = TokenSource(f"file://{str(path).replace(' ', '%20')}")
    for token in ("one", "two"):
        path.write_text(f"{token}\n")
        assert read_token(source, timeout_s=TIMEOUT_S) == token
    path.write_text("x" * 70_000)
    with pytest.raises(BadSecurityFiles, match="larger"):
        read_token(source, timeout_s=TIMEOUT_S)
    path.unlink()
    with pytest.raises(BadSecurityFiles, match="cannot read"):
        read_token(source, timeout_s=TIMEOUT_S)


def test_the_lifetime_of_a_jwt_is_read_from_its_expiry() -> None:
    body = base64.urlsafe_b64encode(json.dumps({"exp": 1060}).encode()).decode().rstrip("=")
    assert lifetime_s(f"x.{body}.y", 1000.0) == 60
    assert lifetime_s("opaque", 1000.0) == DEFAULT_LIFETIME_S
