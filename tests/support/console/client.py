"""A console in a process of its own, and a client that keeps its cookie and CSRF token."""

import html
import http.client
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self
from urllib.parse import urlencode, urlsplit

TIMEOUT_S = 30.0
STOP_S = 10.0
CSRF = re.compile(r'name="csrf" value="([^"]+)"|data-csrf="([^"]+)"')
Fields = Mapping[str, str | Sequence[str]]


class Answer(NamedTuple):
    """A response; `text` has its entities decoded."""

    status: int
    path: str
    raw: str

    @property
    def text(self) -> str:
        """The page without tags, in one line."""
        body = re.sub(r"<(script|style|dialog).*?</\1>", " ", self.raw, flags=re.DOTALL)
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())

    def hidden(self, name: str) -> str:
        """The value of the first hidden field with this name."""
        found = re.search(rf'name="{re.escape(name)}" value="([^"]*)"', self.raw)
        assert found is not None, f"no field {name} in {self.path}"
        return html.unescape(found[1])


class ConsoleClient:
    """`headrace console` and a visitor of it."""

    def __init__(self, bootstrap: str, *options: str) -> None:
        command = [
            sys.executable, "-m", "headrace", "console", "-b", bootstrap,
            "--listen", "127.0.0.1:0", "--until-stdin-ends", *options,
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.address = re.search(r"http://\S+", line)[0]  # type: ignore[index]
        parts = urlsplit(self.address)
        self._connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=TIMEOUT_S
        )
        self._cookie = ""
        self._csrf = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(STOP_S)
        self._process.stdout.close()

    def get(self, path: str) -> Answer:
        return self._send("GET", path, None)

    def post(self, path: str, **fields: str | Sequence[str]) -> Answer:
        """Submits a form and follows the redirect."""
        if not self._csrf:
            self.get("/")
        given = {name.replace("__", "-"): value for name, value in fields.items()}
        return self._send("POST", path, {"csrf": self._csrf, **given})

    def _send(self, method: str, path: str, fields: Fields | None) -> Answer:
        headers = {"Cookie": self._cookie} if self._cookie else {}
        body = None
        if fields is not None:
            body = urlencode(fields, doseq=True)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        text = response.read().decode()
        for cookie in response.headers.get_all("Set-Cookie") or ():
            self._cookie = cookie.partition(";")[0]
        token = CSRF.search(text)
        if token is not None:
            self._csrf = token[1] or token[2]
        location = response.headers.get("Location")
        if response.status == http.client.SEE_OTHER and location:
            return self._send("GET", location, None)
        return Answer(response.status, path, text)
