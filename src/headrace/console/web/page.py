"""One request of a screen: its session, its cluster, its form, and the response.

A screen's handler gets a `Page` and returns what one of its methods returns:

    async def show(page: Page) -> Response:
        snapshot = await page.snapshot()
        return page.render("topics.html", topics=snapshot.topics)
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headrace.client.client import ClusterClient
from headrace.client.results import Refusal
from headrace.console.cluster.connection import ClusterConnection
from headrace.console.cluster.poller import View
from headrace.console.cluster.snapshot import ClusterSnapshot
from headrace.console.settings import ConsoleSettings
from headrace.console.web.errors import PageError
from headrace.console.web.sessions import Session

if TYPE_CHECKING:
    from headrace.console.web.console import Console

MAX_QUERY_CHARS: Final = 4_000
FIRST_SNAPSHOT_S: Final = 10.0
THEME_COOKIE: Final = "headrace-theme"
LIVE_HEADER: Final = "x-headrace-live"
"""The script sends it with automatic refreshes, which do not keep a session alive."""


class Page:
    """What a handler needs; one for each request."""

    def __init__(
        self, request: Request, console: "Console", session: Session, form: FormData | None = None
    ) -> None:
        self.request = request
        self.console = console
        self.session = session
        self._form = form

    @property
    def settings(self) -> ConsoleSettings:
        return self.console.settings

    @property
    def cluster(self) -> ClusterConnection:
        return self.session.cluster

    @property
    def client(self) -> ClusterClient:
        return self.session.cluster.client

    @property
    def timeout_s(self) -> float:
        return self.settings.request_timeout_s

    @property
    def is_live(self) -> bool:
        """Whether the script refreshes the page; what is shown once must wait for the visitor."""
        return LIVE_HEADER in self.request.headers

    async def snapshot(self) -> ClusterSnapshot:
        """The latest snapshot; raises `PageError` (503) if there has been none yet."""
        poller = self.cluster.poller
        poller.touch()
        if poller.view.snapshot is None:
            await poller.first(FIRST_SNAPSHOT_S)
        view = poller.view
        if view.snapshot is None:
            reason = view.problem or f"no answer within {FIRST_SNAPSHOT_S:g} s"
            raise PageError(503, "The cluster does not answer", reason, retry=True)
        return view.snapshot

    @property
    def theme(self) -> str:
        """The visitor's choice; empty follows the system."""
        chosen = self.request.cookies.get(THEME_COOKIE, "")
        return chosen if chosen in ("light", "dark") else ""

    def path(self, name: str) -> str:
        """A parameter of the path."""
        return str(self.request.path_params[name])

    def query(self, name: str, default: str = "") -> str:
        """A parameter after the `?`, without surrounding spaces."""
        return self.request.query_params.get(name, default)[:MAX_QUERY_CHARS].strip()

    def integer(self, name: str, default: int, *, low: int = 0, high: int = 2**63 - 1) -> int:
        """A whole number from the query, within the limits; the default if it is none."""
        return _within(self.query(name), default, low, high)

    def flag(self, name: str) -> bool:
        return self.query(name).lower() in ("1", "on", "true", "yes")

    def field(self, name: str, default: str = "") -> str:
        """A field of the submitted form."""
        value = None if self._form is None else self._form.get(name)
        return value if isinstance(value, str) else default

    def fields(self, name: str) -> list[str]:
        """All values of a repeated field."""
        values = [] if self._form is None else self._form.getlist(name)
        return [value for value in values if isinstance(value, str)]

    @property
    def form(self) -> FormData:
        assert self._form is not None, "only a POST has a form"
        return self._form

    def require_name(self, name: str) -> None:
        """Checks that the visitor typed the name of what the action destroys."""
        typed = self.field("confirm").strip()
        if typed != name:
            found = f"{typed!r} was typed" if typed else "nothing was typed"
            raise PageError(
                400, "Not confirmed", f"Type {name!r} to confirm; {found}. Nothing was changed."
            )

    def url(self, path: str | None = None, **changes: object) -> str:
        """This page's address, or another path, with these parameters; None removes one."""
        kept = dict(self.request.query_params) if path is None else {}
        merged = {**kept, **changes}
        pairs = {key: str(value) for key, value in merged.items() if value is not None}
        base = self.request.url.path if path is None else path
        return f"{base}?{urlencode(pairs)}" if pairs else base

    def render(self, template: str, *, status: int = 200, **context: object) -> Response:
        """A page from a template."""
        html = self.console.templates.render(template, self.context(context))
        return HTMLResponse(html, status_code=status)

    def context(self, context: Mapping[str, object]) -> dict[str, object]:
        connection = self.session.connection
        return {
            **context,
            "page": self,
            "session": self.session,
            "settings": self.settings,
            "view": View(None, None) if connection is None else connection.poller.view,
            "current": getattr(self.request.state, "screen", ""),
            "theme": self.theme,
            "flashes": [] if self.is_live else self.session.take_flashes(),
        }

    def redirect(self, path: str, **query: object) -> Response:
        """See Other: the browser shows that page with a GET, and a reload repeats nothing."""
        return RedirectResponse(self.url(path, **query), status_code=303)

    def flash(self, text: str, kind: str = "ok") -> None:
        """A message at the top of the next page."""
        self.session.add_flash(kind, text)

    def done(self, refusal: Refusal | None, what: str, success: str) -> bool:
        """Tells the result of a change; True if it succeeded. Cached answers are dropped."""
        self.cluster.forget_cached()
        if refusal is None:
            self.flash(success)
            return True
        self.flash(f"{what}: {refusal}", "error")
        return False

    async def refreshed(self) -> None:
        """Refreshes the snapshot, so that the next page shows a change."""
        await self.cluster.poller.refresh(self.timeout_s)


def _within(text: str, default: int, low: int, high: int) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        return default
    return min(max(int(text), low), high)
