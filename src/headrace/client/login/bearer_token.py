"""Gets OAUTHBEARER tokens: from a file, or from an OAuth 2.0 server with the client's secret.

The answer is limited in size and time, and redirects are refused: they could lead the secret to
another server.
"""

import asyncio
import base64
import json
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headrace.client.errors import AuthenticationFailed, BadSecurityFiles
from headrace.client.login.security import TokenSource

if TYPE_CHECKING:
    from urllib.request import HTTPRedirectHandler

MAX_TOKEN_BYTES: Final = 64 * 1024
MAX_ANSWER_BYTES: Final = 256 * 1024
DEFAULT_LIFETIME_S: Final = 300.0
"""Of a token that does not show its expiry."""
_FILE: Final = "file://"


async def fetch_token(source: TokenSource, *, timeout_s: float) -> str:
    """A token that is valid now; raises `AuthenticationFailed`."""
    return await asyncio.to_thread(read_token, source, timeout_s=timeout_s)


def read_token(source: TokenSource, *, timeout_s: float) -> str:
    """`fetch_token` for code that blocks."""
    if source.url.startswith(_FILE):
        return _token_of_file(Path(unquote(urlsplit(source.url).path)))
    return _request_token(source, timeout_s)


def lifetime_s(token: str, now_s: float) -> float:
    """How long the token is valid, from the `exp` of a JWT; the broker verifies it, not this."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return max(1.0, float(claims["exp"]) - now_s)
    except (ValueError, TypeError, LookupError):
        return DEFAULT_LIFETIME_S


def _token_of_file(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            content = opened.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise BadSecurityFiles(f"cannot read the token in {path}: {error.strerror}") from error
    if len(content) > MAX_TOKEN_BYTES:
        raise BadSecurityFiles(f"{path} is larger than {MAX_TOKEN_BYTES:,} bytes: it is no token")
    return _checked(content.decode("latin-1").strip(), str(path))


def _request_token(source: TokenSource, timeout_s: float) -> str:
    # Imported here: a process without OAUTHBEARER does not need it, and it is slow to import.
    from urllib.error import HTTPError, URLError
    from urllib.parse import quote, urlencode
    from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

    fields = {"grant_type": "client_credentials"}
    if source.scope:
        fields["scope"] = source.scope
    login = f"{quote(source.client_id, safe='')}:{quote(source.client_secret, safe='')}"
    request = Request(  # noqa: S310  # the scheme was checked with the settings
        source.url,
        data=urlencode(fields).encode(),
        headers={
            "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
            "Accept": "application/json",
        },
        method="POST",
    )
    context = ssl.create_default_context(cafile=source.ca)
    # Without TLS, the address is a loopback address, and no proxy may see the secret.
    proxies: dict[str, str] | None = None if source.url.startswith("https://") else {}
    opener = build_opener(ProxyHandler(proxies), HTTPSHandler(context=context), _refuse_redirects())
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            content = answer.read(MAX_ANSWER_BYTES + 1)
    except HTTPError as error:
        error.close()
        raise AuthenticationFailed(
            f"{source.url} gave no token to the client {source.client_id!r}: HTTP {error.code}"
        ) from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise AuthenticationFailed(f"{source.url} gave no token: {reason}") from None
    return _checked(_access_token(content, source.url), source.url)


def _refuse_redirects() -> "HTTPRedirectHandler":
    from urllib.request import HTTPRedirectHandler

    class Refuse(HTTPRedirectHandler):
        def redirect_request(self, *_: object, **__: object) -> None:
            return None

    return Refuse()


def _access_token(content: bytes, url: str) -> str:
    try:
        token = json.loads(content[:MAX_ANSWER_BYTES])["access_token"]
    except (ValueError, TypeError, LookupError):
        token = None
    if not isinstance(token, str):
        raise AuthenticationFailed(f"the answer of {url} has no access_token")
    return token


def _checked(token: str, where: str) -> str:
    """The token, if it has only the characters of RFC 6750: others could add fields."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise AuthenticationFailed(f"{where} does not contain a bearer token")
    return token
