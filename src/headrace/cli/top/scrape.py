"""The metrics of one broker, from its HTTP port. Parsing is pure."""

import asyncio
import re
import ssl
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from headrace.cli.top.http_login import HttpLogin

TOPICS: Final = "kafka_server_brokertopicmetrics_"
REQUESTS: Final = "kafka_network_requestmetrics_"
GROUPS: Final = "kafka_consumergroup_"
SHARES: Final = "headrace_sharegroup_"
_WANTED: Final = (
    *(f"{TOPICS}{name}_total" for name in ("messagesin", "bytesin", "bytesout")),
    *(f"{REQUESTS}{name}" for name in ("requests_total", "errors_total", "totaltimems")),
    *(f"{GROUPS}{name}" for name in ("lag_sum", "members", "current_offset_sum")),
    f"{GROUPS}group_max_lag_seconds",
    *(f"{SHARES}{name}" for name in ("lag_sum", "members", "start_offset_sum", "max_lag_seconds")),
    "headrace_api_waiting_requests",
)
_LINE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
_ESCAPED: Final = re.compile(r'\\[\\"n]')
MAX_BYTES: Final = 64 * 1024 * 1024

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Scrape:
    """The series that the views use, by name."""

    series: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)

    def by(self, name: str, label: str, **others: str) -> dict[str, float]:
        """The sums of a metric's series with these other labels, by the value of one label."""
        found: dict[str, float] = {}
        for labels, value in self.series.get(name, {}).items():
            known = dict(labels)
            if label in known and all(known.get(key) == text for key, text in others.items()):
                found[known[label]] = found.get(known[label], 0.0) + value
        return found


def parse_scrape(lines: Iterable[str]) -> Scrape:
    """Prometheus' text format."""
    series: dict[str, dict[Labels, float]] = {}
    for line in lines:
        if not line.startswith(_WANTED):
            continue
        found = _LINE.match(line)
        if found is not None:
            name, labels, value = found.groups()
            series.setdefault(name, {})[tuple(_labels(labels or ""))] = float(value)
    return Scrape(series)


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _LABEL.findall(text):
        yield name, _ESCAPED.sub(lambda found: _ESCAPES[found[0]], value)


def metrics_address(listener: str, broker_host: str) -> str | None:
    """The URL of a broker's metrics, from its `headrace.http.listener`; None without a port.

    A listener on all interfaces is reached at the broker's own host.
    """
    parts = urlsplit(listener)
    if parts.scheme not in ("http", "https") or not parts.port:
        return None
    host = parts.hostname or ""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = broker_host
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{parts.port}/metrics"


class ScrapeRefused(NamedTuple):
    """Why the port sends no metrics, such as `401 Unauthorized`."""

    reason: str


async def fetch_scrape(
    address: str, login: HttpLogin, *, timeout_s: float
) -> Scrape | ScrapeRefused | None:
    """One scrape; None if the port does not answer."""
    try:
        return await asyncio.to_thread(_read, address, login, timeout_s)
    except HTTPError as error:
        return ScrapeRefused(f"{error.code} {error.reason}".rstrip())
    except URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            return ScrapeRefused(f"its certificate is not trusted: {error.reason.verify_message}")
        return None
    except (OSError, ValueError):
        return None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would send the credentials elsewhere."""

    def redirect_request(self, *_: object) -> None:
        return None


def _read(address: str, login: HttpLogin, timeout_s: float) -> Scrape:
    # Not through a proxy of the environment: brokers are on the operator's own network.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirects()]
    if address.startswith("https:"):
        context = ssl.create_default_context(cafile=login.ca_file)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(address)  # noqa: S310 - metrics_address allows only HTTP(S)
    if login.authorization is not None:
        request.add_header("Authorization", login.authorization)
    with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
        text = answer.read(MAX_BYTES).decode("utf-8", "replace")
    return parse_scrape(text.splitlines())
