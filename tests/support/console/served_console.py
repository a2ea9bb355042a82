"""A console in a thread, on a free port, and a browser without JavaScript for its pages."""

import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from headrace.console.server import ConsoleServer
from headrace.console.settings import ConsoleSettings, ListenAddress

TIMEOUT_S = 20.0
CSRF = re.compile(r'data-csrf="([^"]+)"')


class Reply(NamedTuple):
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    text: str


class Visitor:
    """Keeps cookies and the CSRF token of the last page, as a browser does."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        assert parts.port is not None
        self.host, self.port = parts.hostname, parts.port
        self.cookies: dict[str, str] = {}
        self.csrf = ""

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        return self._send("GET", path, None, headers or {})

    def post(
        self,
        path: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        fields = {"csrf": self.csrf, **(form or {})}
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._send("POST", path, urlencode(fields).encode(), {**kind, **(headers or {})})

    @contextmanager
    def stream(self, path: str) -> Iterator[HTTPResponse]:
        connection = HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path, headers=self._headers({}))
            yield connection.getresponse()
        finally:
            connection.close()

    def events(self, path: str) -> list[tuple[str, str]]:
        """All events of a stream that ends."""
        with self.stream(path) as response:
            assert response.status == 200, response.read()
            text = response.read().decode()
        found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)
        return [(name, data) for name, data in found]

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {**({"Cookie": cookies} if cookies else {}), **headers}

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply:
        connection = HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, body, self._headers(headers))
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        for cookie in response.headers.get_all("Set-Cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        text = content.decode("utf-8", "surrogateescape")
        found = CSRF.search(text)
        if found:
            self.csrf = found[1]
        return Reply(response.status, dict(response.headers.items()), text)


class ServedConsole:
    """The server in its thread."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self.server = ConsoleServer(settings)
        self.address = ""
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)
        self._ready: Future[str] = Future()

    def start(self) -> None:
        self._thread.start()
        self.address = self._ready.result(TIMEOUT_S)

    def stop(self) -> None:
        self.server.stop()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def visitor(self) -> Visitor:
        return Visitor(self.server.address)

    def _run(self) -> None:
        try:
            self.server.run(self._ready.set_result)
        except BaseException as error:
            self._ready.set_exception(error)


@contextmanager
def served(
    client: Mapping[str, str] | str, *, refresh_s: float = 0.5, **options: object
) -> Iterator[ServedConsole]:
    """A console for these servers, or with these client settings."""
    settings = {"bootstrap.servers": client} if isinstance(client, str) else client
    console = ServedConsole(
        ConsoleSettings(
            settings,
            ListenAddress("127.0.0.1", 0),
            refresh_s=refresh_s,
            **options,  # type: ignore[arg-type]  # the caller names fields of the class
        )
    )
    console.start()
    try:
        yield console
    finally:
        console.stop()
