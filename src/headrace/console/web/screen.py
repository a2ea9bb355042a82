"""Screens and their routes: sessions, CSRF tokens, read-only mode and errors in one place.

A module of `screens` defines one `SCREEN`:

    SCREEN = Screen("topics", (get("/topics", show), post("/topics", create)))

- `get` handlers only read. `post` handlers change something: the form's CSRF token is checked
  first, and read-only mode refuses them. `post(..., changes=False)` is for logins and previews.
- Every error of the cluster becomes a page.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headrace.client.errors import AuthenticationFailed, ClientError
from headrace.console.web.console import Console
from headrace.console.web.errors import LoginRequired, PageError, page_error_of
from headrace.console.web.page import LIVE_HEADER, Page
from headrace.console.web.security_headers import MAX_BODY_BYTES
from headrace.console.web.sessions import Session

Handler: TypeAlias = Callable[[Page], Awaitable[Response]]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "x-csrf-token"
MAX_FIELDS: Final = 2_000
SAFE_SITES: Final = ("same-origin", "none")
logger: Final = logging.getLogger(__name__)


class Action(NamedTuple):
    """One route of a screen."""

    method: str
    path: str
    handler: Handler
    changes: bool = False
    public: bool = False
    """Whether it can be used without a session."""


class Screen(NamedTuple):
    """A screen; `name` is the one in navigation.py, which marks the current link."""

    name: str
    actions: tuple[Action, ...]


def get(path: str, handler: Handler, *, public: bool = False) -> Action:
    return Action("GET", path, handler, public=public)


def post(path: str, handler: Handler, *, changes: bool = True, public: bool = False) -> Action:
    return Action("POST", path, handler, changes, public)


def routes_of(screen: Screen, console: Console) -> list[Route]:
    """Starlette's routes of the screen."""
    return [
        Route(action.path, _endpoint(screen, action, console), methods=[action.method])
        for action in screen.actions
    ]


def _endpoint(screen: Screen, action: Action, console: Console) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        request.state.screen = screen.name
        try:
            session, is_new = _session_for(request, console, action)
            form = None
            if action.method == "POST":
                form = await _checked_form(request, console, session, action)
            page = Page(request, console, session, form)
            response = await _answer(page, action)
        except LoginRequired:
            return _to_login(request)
        except _Refused as refused:
            return error_page(refused.page, refused.error)
        if is_new:
            set_session_cookie(response, console, session)
        return response

    return endpoint


async def _answer(page: Page, action: Action) -> Response:
    try:
        return await action.handler(page)
    except (LoginRequired, asyncio.CancelledError):
        raise
    except AuthenticationFailed as error:
        if page.console.settings.needs_login and not action.public:
            # The password was changed or the token has expired since the login.
            await page.console.end_session(page.session)
            raise LoginRequired from error
        return error_page(page, page_error_of(error))
    except (PageError, ClientError) as error:
        return error_page(page, page_error_of(error))
    except Exception as error:
        logger.exception("the page %s failed", page.request.url.path)
        return error_page(page, page_error_of(error))


def error_page(page: Page, error: PageError) -> Response:
    return page.render("error.html", status=error.status, error=error)


def _session_for(request: Request, console: Console, action: Action) -> tuple[Session, bool]:
    is_use = LIVE_HEADER not in request.headers
    session = console.find_session(request.cookies.get(console.cookie), is_use=is_use)
    if session is not None and (session.connection is not None or action.public):
        return session, False
    if console.asks_for_login:
        if not action.public:
            raise LoginRequired
        return console.open_session(None, None), True
    return console.open_session(console.shared_connection(), None), True


async def _checked_form(
    request: Request, console: Console, session: Session, action: Action
) -> FormData:
    """The form of a POST from one of our own pages; raises `PageError` otherwise."""
    form = await request.form(max_fields=MAX_FIELDS, max_files=8, max_part_size=MAX_BODY_BYTES)
    given = request.headers.get(CSRF_HEADER) or form.get(CSRF_FIELD)
    site = request.headers.get("sec-fetch-site", "same-origin")
    is_ours = isinstance(given, str) and secrets.compare_digest(
        given.encode(), session.csrf_token.encode()
    )
    if not is_ours or site not in SAFE_SITES:
        page = Page(request, console, session)
        raise _Refused(
            page,
            PageError(
                403,
                "The form has expired",
                "It does not belong to this session. Nothing was changed. Load the page again and "
                "repeat the action.",
            ),
        )
    if action.changes and console.settings.read_only:
        page = Page(request, console, session)
        raise _Refused(
            page,
            PageError(
                403, "Read-only", "This console was started with --read-only. Nothing was changed."
            ),
        )
    return form


class _Refused(Exception):
    def __init__(self, page: Page, error: PageError) -> None:
        super().__init__(error.detail)
        self.page = page
        self.error = error


def _to_login(request: Request) -> Response:
    target = request.url.path
    if request.url.query:
        target += f"?{request.url.query}"
    suffix = "" if request.method != "GET" or target == "/" else f"?next={_quoted(target)}"
    if LIVE_HEADER in request.headers or "text/event-stream" in request.headers.get("accept", ""):
        return Response(status_code=401)
    return RedirectResponse(f"/login{suffix}", status_code=303)


def _quoted(text: str) -> str:
    return quote(text, safe="/")


def set_session_cookie(response: Response, console: Console, session: Session) -> None:
    """The only cookie with a secret; it ends with the browser."""
    response.set_cookie(
        console.cookie,
        session.id,
        httponly=True,
        samesite="strict",
        secure=console.settings.uses_tls,
        path="/",
    )
