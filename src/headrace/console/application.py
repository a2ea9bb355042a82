"""The console as an ASGI application."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headrace.clock import Clock, SystemClock
from headrace.console.screens.registry import SCREENS
from headrace.console.settings import ConsoleSettings
from headrace.console.web.console import Console
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.screen import error_page, routes_of
from headrace.console.web.security_headers import SecurityHeaders

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

ASSET_SECONDS: Final = 365 * 24 * 3600


def console_app(settings: ConsoleSettings, *, clock: Clock | None = None) -> Starlette:
    """The application; its lifespan starts and stops the connection to the cluster.

    `app.state.console` is its `Console`.
    """
    console = Console(
        settings, clock or SystemClock(), screens=frozenset(screen.name for screen in SCREENS)
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await console.start()
        try:
            yield
        finally:
            await console.stop()

    routes = [
        Route("/healthz", _health),
        Route("/favicon.ico", _asset(console, "icon.svg")),
        *(Route(f"/static/{name}", _asset(console, name)) for name in console.assets.by_name),
        *(route for screen in SCREENS for route in routes_of(screen, console)),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[
            Middleware(
                SecurityHeaders, allowed_hosts=console.allowed_hosts, uses_tls=settings.uses_tls
            )
        ],
        exception_handlers={HTTPException: _http_error},
    )
    app.state.console = console
    return app


async def _health(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def _asset(console: Console, name: str) -> Endpoint:
    asset = console.assets.by_name[name]
    headers = {
        "Cache-Control": f"public, max-age={ASSET_SECONDS}, immutable",
        "ETag": f'"{asset.version}"',
    }

    async def endpoint(_: Request) -> Response:
        return Response(asset.content, media_type=asset.type, headers=headers)

    return endpoint


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own errors: no such page, method not allowed, a form that is none."""
    assert isinstance(error, HTTPException)
    console: Console = request.app.state.console
    session = console.find_session(request.cookies.get(console.cookie), is_use=False)
    if session is None:
        return PlainTextResponse(f"{error.detail}\n", status_code=error.status_code)
    titles = {404: "No such page", 405: "Not allowed"}
    problem = PageError(
        error.status_code,
        titles.get(error.status_code, "The request cannot be read"),
        f"{request.method} {request.url.path}: {error.detail}",
    )
    return error_page(Page(request, console, session), problem)
