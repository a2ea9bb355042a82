"""Runs the console until a signal stops it."""

import asyncio
import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette

from headrace.console.application import console_app
from headrace.console.settings import ConsoleSettings, InvalidConsoleSetting
from headrace.console.web.console import Console
from headrace.process_tuning import loop_factory

BACKLOG: Final = 128
MAX_CONNECTIONS: Final = 500
STOP_TIMEOUT_S: Final = 2
SWITCH_INTERVAL_S: Final = 0.001
"""A page waits at most this long for the thread that decodes a snapshot or scans records."""
MAX_HEADER_BYTES: Final = 32 * 1024


class _Server(uvicorn.Server):
    """Ends the streams of events first, so that open pages do not delay the stop."""

    def __init__(self, config: uvicorn.Config, console: Console) -> None:
        super().__init__(config)
        self._console = console
        self.has_started = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_started.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would end the process with the signal once it has stopped."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._console.streams.stop()
        await super().shutdown(sockets)


class ConsoleServer:
    """The console on its own event loop, in the thread that calls `run`."""

    def __init__(self, settings: ConsoleSettings) -> None:
        """Binds the address; raises `InvalidConsoleSetting`."""
        settings.check()
        _check_certificate(settings)
        self._settings = settings
        self._listener = _listener(settings)
        app = console_app(settings)
        self.console: Console = app.state.console
        self.console.port = self._listener.getsockname()[1]
        self._server = _Server(_config(app, settings), self.console)

    @property
    def address(self) -> str:
        return address(self._settings, self.console)

    def run(self, ready: Callable[[str], None]) -> None:
        """Serves until a signal, or `stop`; `ready` gets the address to open."""

        async def main() -> None:
            if threading.current_thread() is threading.main_thread():
                loop = asyncio.get_running_loop()
                for number in (signal.SIGINT, signal.SIGTERM):
                    loop.add_signal_handler(number, self.stop)
            task = asyncio.ensure_future(self._server.serve(sockets=[self._listener]))
            started = asyncio.ensure_future(self._server.has_started.wait())
            await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
            started.cancel()
            if self._server.started:
                ready(login_address(self._settings, self.console))
            await task

        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(main())

    def stop(self) -> None:
        """Makes `run` return; from any thread."""
        self._server.should_exit = True


def serve(settings: ConsoleSettings, ready: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM; raises `InvalidConsoleSetting`."""
    server = ConsoleServer(settings)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    server.run(ready)


def _check_certificate(settings: ConsoleSettings) -> None:
    """Loads the files once, for an error that names them."""
    if settings.certificate is None:
        return
    for option, path in (("--tls-cert", settings.certificate), ("--tls-key", settings.key)):
        try:
            if path is not None:
                Path(path).open("rb").close()
        except OSError as error:
            raise InvalidConsoleSetting(f"{option} {path}: {error.strerror}") from None
    key = settings.key or settings.certificate
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            settings.certificate, key, _no_passphrase
        )
    except (ssl.SSLError, ValueError) as error:
        raise InvalidConsoleSetting(
            f"{settings.certificate} and {key} are not a certificate and its unencrypted private "
            f"key in PEM format: {error}"
        ) from None


def _no_passphrase() -> str:
    """Without it, OpenSSL asks for a passphrase on the terminal."""
    return ""


def _config(app: Starlette, settings: ConsoleSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        access_log=False,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        http="h11",
        lifespan="on",
        limit_concurrency=MAX_CONNECTIONS,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key or settings.certificate,
        timeout_graceful_shutdown=STOP_TIMEOUT_S,
        ws="none",
    )


def address(settings: ConsoleSettings, console: Console) -> str:
    """The console's URL for a browser on this machine."""
    scheme = "https" if settings.uses_tls else "http"
    host = settings.host_names[0] if settings.host_names else settings.listen.host
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{host}:{console.port}/"


def login_address(settings: ConsoleSettings, console: Console) -> str:
    """The address to open; with credentials in the settings, it has the access token."""
    if console.access_token is None:
        return address(settings, console)
    return f"{address(settings, console)}login?token={console.access_token}"


def _listener(settings: ConsoleSettings) -> socket.socket:
    host, port = settings.listen.host, settings.listen.port
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidConsoleSetting(f"cannot listen on {host}:{port}: {error.strerror}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidConsoleSetting(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another address with "
            "--listen"
        ) from error
    listener.set_inheritable(False)
    return listener


def log_to_stderr() -> None:
    """Warnings and errors of the console; nothing of requests, which may contain names."""
    logging.basicConfig(
        level=logging.WARNING,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
