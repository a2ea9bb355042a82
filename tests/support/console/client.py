"""A visitor of a console who submits forms and follows redirects."""

import html
import re
from collections.abc import Mapping
from contextlib import ExitStack
from http import HTTPStatus
from typing import NamedTuple, Self

from support.console.served_console import Reply, Visitor, served


class Answer(NamedTuple):
    """A page; `path` is where the redirects ended."""

    status: int
    path: str
    raw: str

    @property
    def text(self) -> str:
        """The page without tags and dialogs, in one line."""
        body = re.sub(r"<(script|style|dialog).*?</\1>", " ", self.raw, flags=re.DOTALL)
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())

    def hidden(self, name: str) -> str:
        """The value of the first hidden field with this name."""
        found = re.search(rf'name="{re.escape(name)}" value="([^"]*)"', self.raw)
        assert found is not None, f"no field {name} in {self.path}"
        return html.unescape(found[1])


class ConsoleClient:
    """A console of its own, and one visitor."""

    def __init__(
        self, client: Mapping[str, str] | str, *, refresh_s: float = 0.2, **options: object
    ) -> None:
        self._open = ExitStack()
        console = self._open.enter_context(served(client, refresh_s=refresh_s, **options))
        self._visitor: Visitor = console.visitor()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def log_in(self, user: str, password: str) -> None:
        self.get("/login")
        assert self.post("/login", user=user, secret=password).path != "/login"

    def get(self, path: str) -> Answer:
        return self._follow(path, self._visitor.get(path))

    def post(self, path: str, **fields: str) -> Answer:
        """Submits a form."""
        if not self._visitor.csrf:
            self.get("/")
        return self._follow(path, self._visitor.post(path, fields))

    def _follow(self, path: str, reply: Reply) -> Answer:
        target = {name.lower(): value for name, value in reply.headers.items()}.get("location")
        if reply.status == HTTPStatus.SEE_OTHER and target:
            return self.get(target)
        return Answer(reply.status, path, reply.text)
