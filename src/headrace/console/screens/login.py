"""Login with the cluster's own credentials, or with the access token; logout.

The credentials stay in the connection of the session, in memory. A failed login says what the
cluster said, and is counted for the address and for the user name.
"""

import secrets
from typing import Final

from starlette.responses import Response

from headrace.client.errors import AuthenticationFailed, ClientError
from headrace.client.login.security import Credentials, Mechanism
from headrace.client.metadata import metadata_request
from headrace.console.web.page import Page
from headrace.console.web.screen import Screen, get, post, set_session_cookie
from headrace.console.web.sessions import Session
from headrace.protocol.messages.metadata import MetadataResponse

MAX_CHARS: Final = 16_384
"""Of a user name, a password or a token."""
DEFAULT_TARGET: Final = "/"


async def show(page: Page) -> Response:
    if not page.console.asks_for_login or page.session.connection is not None:
        return page.redirect(DEFAULT_TARGET)
    token = page.query("token")
    if page.console.access_token is not None and token:
        return await _log_in_with_access_token(page, token)
    return _form(page)


def _form(page: Page, problem: str = "", status: int = 200) -> Response:
    settings = page.settings
    fixed = "sasl.mechanism" in settings.client or "sasl.mechanisms" in settings.client
    return page.render(
        "login.html",
        status=status,
        problem=problem,
        mechanisms=[settings.mechanism] if fixed else [each.value for each in Mechanism],
        chosen=page.field("mechanism") or settings.mechanism,
        user=page.field("user"),
        wants_token=page.console.access_token is not None,
        target=page.field("next") or page.query("next"),
    )


async def log_in(page: Page) -> Response:
    if page.console.access_token is not None:
        return await _log_in_with_access_token(page, page.field("token"))
    user, secret = page.field("user").strip()[:MAX_CHARS], page.field("secret")[:MAX_CHARS]
    mechanism = _mechanism(page)
    if mechanism is None or not secret or not (user or mechanism is Mechanism.OAUTHBEARER):
        return _form(page, "Enter a user name and a password, or a bearer token.", 400)
    keys = (_address_key(page), f"user:{user}")
    wait_s = page.console.limiter.wait_s(keys, page.console.clock.monotonic())
    if wait_s:
        return _too_many(page, wait_s)
    # Counted before the attempt, so that parallel attempts are limited as well.
    page.console.limiter.failed(keys, page.console.clock.monotonic())
    if mechanism is Mechanism.OAUTHBEARER:
        credentials = Credentials(mechanism, bearer_token=secret.strip())
    else:
        credentials = Credentials(mechanism, user, secret)
    connection = page.console.connection_of(credentials)
    try:
        await connection.client.send(
            metadata_request([]), MetadataResponse, retry=False, timeout_s=page.timeout_s
        )
    except ClientError as error:
        await connection.close()
        if isinstance(error, AuthenticationFailed):
            return _form(page, f"The cluster refused the login: {error}", 403)
        page.console.limiter.succeeded(keys)
        return _form(page, f"The cluster cannot be reached: {error}", 504)
    except BaseException:
        await connection.close()
        raise
    page.console.limiter.succeeded(keys)
    session = page.console.open_session(connection, user or "token")
    connection.poller.touch()
    return await _logged_in(page, session)


async def _log_in_with_access_token(page: Page, token: str) -> Response:
    keys = (_address_key(page),)
    wait_s = page.console.limiter.wait_s(keys, page.console.clock.monotonic())
    if wait_s:
        return _too_many(page, wait_s)
    wanted = page.console.access_token or ""
    if not secrets.compare_digest(token.strip().encode(), wanted.encode()):
        page.console.limiter.failed(keys, page.console.clock.monotonic())
        return _form(page, "This is not the access token that the console printed.", 403)
    page.console.limiter.succeeded(keys)
    session = page.console.open_session(page.console.shared_connection(), "access token")
    return await _logged_in(page, session)


async def _logged_in(page: Page, session: Session) -> Response:
    # A new id: the one of the login form may be known to others.
    await page.console.end_session(page.session)
    response = page.redirect(_local(page.field("next")))
    set_session_cookie(response, page.console, session)
    return response


def _local(target: str) -> str:
    """A path of this console; another site's address becomes the overview."""
    is_local = target.startswith("/") and not target.startswith(("//", "/\\", "/login"))
    return target if is_local and target.isprintable() else DEFAULT_TARGET


def _mechanism(page: Page) -> Mechanism | None:
    named = page.field("mechanism") or page.settings.mechanism
    return next((each for each in Mechanism if each.value == named), None)


def _address_key(page: Page) -> str:
    client = page.request.client
    return f"address:{client.host if client else ''}"


def _too_many(page: Page, wait_s: float) -> Response:
    text = f"Too many failed logins. Try again in {wait_s:.0f} s."
    response = _form(page, text, 429)
    response.headers["Retry-After"] = str(max(1, round(wait_s)))
    return response


async def log_out(page: Page) -> Response:
    await page.console.end_session(page.session)
    response = page.redirect("/login")
    response.delete_cookie(
        page.console.cookie,
        path="/",
        httponly=True,
        samesite="strict",
        secure=page.settings.uses_tls,
    )
    return response


SCREEN: Final = Screen(
    "login",
    (
        get("/login", show, public=True),
        post("/login", log_in, public=True, changes=False),
        post("/logout", log_out, public=True, changes=False),
    ),
)
