"""The HTTP port of a broker: `/metrics`, `/livez`, `/readyz` and `/version`.

The probes need no authentication. `/livez` answers while the event loop runs. `/readyz` answers 200
or 503, with reasons. The port opens early in the start and closes at the end of the stop, so that
both can be watched; `/metrics` answers once the broker has started.
"""

import asyncio
import logging
import platform
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from headrace import __version__
from headrace.broker.http.http_authentication import HttpAuthentication
from headrace.broker.http.http_message import (
    HttpRequest,
    HttpResponse,
    accepts,
    json_response,
    text_response,
)
from headrace.broker.http.http_server import HttpServer
from headrace.broker.http.readiness import BrokerCondition, Readiness, check_readiness
from headrace.broker.http.scrape import Scraper, Variant
from headrace.broker.metrics.collectors import CollectorsHost, build_collectors
from headrace.broker.metrics.loop_monitor import LoopMonitor
from headrace.broker.runtime.offload import Offload
from headrace.cluster.http_listener import LISTENER_NAME, is_loopback
from headrace.metrics.family import Collector
from headrace.metrics.text_format import TextFormat

if TYPE_CHECKING:
    import ssl
    from random import Random

    from headrace.broker.membership.broker_lifecycle import BrokerLifecycle
    from headrace.broker.tls.tls_listeners import TlsListeners

log = logging.getLogger(__package__)

SECRET_BYTES: Final = 32
PATHS: Final = ("/metrics", "/livez", "/readyz", "/version")


class HttpPortHost(CollectorsHost, Protocol):
    """What the port needs of the broker."""

    loop: asyncio.AbstractEventLoop
    offload: Offload
    random: "Random"
    tls: "TlsListeners | None"

    @property
    def membership(self) -> "BrokerLifecycle | None": ...

    @property
    def has_logs(self) -> bool: ...

    @property
    def is_serving(self) -> bool: ...


class HttpPort:
    """Answers the requests of the port."""

    def __init__(self, host: HttpPortHost) -> None:
        settings = host.settings
        listener = settings.http_listener
        assert listener is not None  # there is an HTTP port
        meters = host.request_meters
        assert meters is not None
        self._host = host
        self._listener = listener
        self._port = 0
        self._methods = settings.words("headrace.http.authentication")
        self._monitor = LoopMonitor(host.loop, meters.fold, meters.rotate)
        self._scraper = Scraper(
            host.loop, host.offload, host.clock.monotonic, lambda: self.collectors
        )
        self._server = HttpServer(
            host.loop,
            listener,
            self.respond,
            max_connections=settings.integer("headrace.http.max.connections"),
            timeout_s=settings.integer("headrace.http.timeout.ms") / 1000,
            tls=self._tls_context,
        )

    @property
    def address(self) -> str:
        """The URL of the port, once it is bound."""
        scheme = "https" if self._listener.uses_tls else "http"
        return f"{scheme}://{self._listener.host or '0.0.0.0'}:{self._port}"  # noqa: S104

    async def bind(self) -> None:
        """Binds the port; raises `StartupError`."""
        self._port = await self._server.bind()
        if not self._methods and not is_loopback(self._listener):
            log.warning(
                "anyone who can connect can read the metrics: set headrace.http.authentication, "
                "or a loopback address in headrace.http.listener",
                extra={"address": self.address},
            )

    async def serve(self) -> None:
        """Begins to answer; without effect while a TLS listener has no stores yet."""
        await self._server.serve()

    def close(self) -> None:
        self._monitor.stop()
        self._scraper.stop()
        self._server.close()

    async def respond(self, request: HttpRequest) -> HttpResponse:
        """The response to one request."""
        path = request.path
        if path not in PATHS:
            return text_response(404, f"there is nothing here; see {', '.join(PATHS)}")
        if request.method not in ("GET", "HEAD"):
            return text_response(405, "only GET and HEAD", (("allow", "GET, HEAD"),))
        if path == "/livez":
            return json_response(200, {"status": "alive", "broker": self._host.node_id})
        if path == "/readyz":
            readiness = self._readiness()
            status = 200 if readiness.is_ready else 503
            return json_response(status, readiness.as_json(self._host.node_id))
        if not self._host.is_serving:  # it has no users yet either
            return text_response(503, "the broker is starting", (("retry-after", "1"),))
        refusal = await self._authentication.refusal(request)
        if refusal is not None:
            return refusal
        if path == "/version":
            return json_response(200, self._version())
        return await self._metrics(request)

    # --- endpoints ------------------------------------------------------------------------------

    async def _metrics(self, request: HttpRequest) -> HttpResponse:
        format_ = _wanted_format(request.headers.get("accept", "*/*"))
        compressed = accepts(request.headers.get("accept-encoding", ""), "gzip") > 0
        headers = [("vary", "accept, accept-encoding")]
        if compressed:
            headers.append(("content-encoding", "gzip"))
        body = (
            []
            if request.method == "HEAD"
            else await self._scraper.body(Variant(format_, compressed))
        )
        return HttpResponse(200, format_.value, body, tuple(headers))

    def _version(self) -> dict[str, object]:
        return {
            "version": __version__,
            "python": platform.python_version(),
            "broker": self._host.node_id,
            "cluster": self._host.cluster_id,
        }

    def _readiness(self) -> Readiness:
        host = self._host
        membership = host.membership
        registration = None
        if host.is_serving:
            registration = host.metadata.image.brokers.get(host.node_id)
        directories = host.logs.directories if host.has_logs else []
        coordinators = host.built_coordinators
        runtimes = (
            ()
            if coordinators is None
            else (coordinators.groups, coordinators.transactions, coordinators.share_state)
        )
        return check_readiness(
            BrokerCondition(
                is_started=host.is_serving,
                is_stopping=host.stopping,
                is_member=membership is not None,
                is_registered=membership is not None and membership.is_registered,
                is_fenced=registration is not None and registration.fenced,
                has_store=membership is not None and membership.is_store_connected,
                offline_dirs=tuple(each.path for each in directories if not each.is_online),
                log_dirs=len(directories),
                loading=tuple(
                    f"{each.topic}-{index}" for each in runtimes for index in each.loading
                ),
            )
        )

    # --- parts ----------------------------------------------------------------------------------

    def _tls_context(self) -> "ssl.SSLContext | None":
        tls = self._host.tls
        return None if tls is None else tls.server_context(LISTENER_NAME)

    @cached_property
    def collectors(self) -> tuple[Collector, ...]:
        """Built at the first scrape."""
        return build_collectors(self._host, self._monitor, self._scraper)

    @cached_property
    def _authentication(self) -> HttpAuthentication:
        host = self._host
        return HttpAuthentication(
            self._methods,
            host.settings.string("headrace.http.bearer.token.file"),
            image=lambda: host.metadata.image,
            access=host.access,
            offload=host.offload,
            secret=host.random.randbytes(SECRET_BYTES),
            security_protocol="SSL" if self._listener.uses_tls else "PLAINTEXT",
            failure_delay_s=host.settings.integer("connection.failed.authentication.delay.ms")
            / 1000,
        )


def _wanted_format(accept: str) -> TextFormat:
    """OpenMetrics if the client prefers it, which Prometheus does."""
    openmetrics = accepts(accept, "application/openmetrics-text; version=1.0.0")
    is_named = "application/openmetrics-text" in accept.lower()
    prometheus = accepts(accept, "text/plain; version=0.0.4")
    if is_named and openmetrics and openmetrics >= prometheus:
        return TextFormat.OPENMETRICS
    return TextFormat.PROMETHEUS
