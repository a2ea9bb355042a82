"""Security headers, the Host check and the size limit of requests, for every response.

The policy allows no inline scripts and no inline styles, and nothing from other hosts: a record's
contents that reached a page unescaped would still do nothing.
"""

from collections.abc import Callable, MutableMapping
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""A produced record of 10 MB as a URL-encoded or multipart form."""
CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types headrace",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class SecurityHeaders:
    """An ASGI middleware around everything else."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        allowed_hosts: Callable[[], frozenset[str]],
        uses_tls: bool,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self._app = app
        self._allowed_hosts = allowed_hosts
        self._uses_tls = uses_tls
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(message)
            await send(message)

        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host not in self._allowed_hosts():
            refused = PlainTextResponse(
                f"This console does not answer for the host {host[:100]!r}. "
                "Start it with --host-name NAME to allow another name.\n",
                status_code=421,
            )
            await refused(scope, receive, send_with_headers)
            return
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_body_bytes:
            too_large = PlainTextResponse(
                f"A request may have at most {self._max_body_bytes:,} bytes.\n", status_code=413
            )
            await too_large(scope, receive, send_with_headers)
            return
        if "transfer-encoding" in headers:
            # Without a declared length the limit could not be checked before reading.
            unsized = PlainTextResponse("Send a Content-Length.\n", status_code=411)
            await unsized(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _add_headers(self, message: MutableMapping[str, object]) -> None:
        headers = MutableHeaders(scope=message)
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        headers.setdefault("Cache-Control", "no-store")
        if self._uses_tls:
            headers.setdefault("Strict-Transport-Security", "max-age=31536000")
