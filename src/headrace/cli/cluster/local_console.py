"""The web console of a local cluster: a process that ends with the command, and its log."""

import socket
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from headrace.cli.broker.console_process import ConsoleProcess
from headrace.cli.exit_codes import CommandFailed
from headrace.cluster.java_properties import read_properties
from headrace.zookeeper_server import LOOPBACK

DEFAULT_PORT: Final = 9645


class LocalConsole:
    """`headrace console` for the brokers of one cluster."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.log = folder / "console.log"
        self._process: ConsoleProcess | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/"

    @property
    def is_started(self) -> bool:
        return self._process is not None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.runs

    def check(self) -> None:
        """Raises `CommandFailed` if the console cannot start."""
        if find_spec("starlette") is None:
            raise CommandFailed(
                "--console needs packages that are not installed: pip install 'headrace[console]'"
            )
        try:
            socket.create_server((LOOPBACK, self.port)).close()
        except OSError as error:
            raise CommandFailed(
                f"the console cannot listen on {LOOPBACK}:{self.port}: {error.strerror}; stop the "
                "program that does, or start the console later: headrace console --listen HOST:PORT"
            ) from error

    def start(self, servers: str, client_file: Path | None) -> None:
        """`client_file` has the TLS settings of clients; visitors log in themselves."""
        settings = None
        if client_file is not None:
            settings = read_properties(client_file.read_text(encoding="utf-8"))
        with self.log.open("ab") as log:
            self._process = ConsoleProcess(
                servers, settings, listen=f"{LOOPBACK}:{self.port}", output=log.fileno()
            )

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


def console_port(first: int, taken: Collection[int]) -> int:
    """The port of the console; any free one if the brokers have free ports (`first` is 0)."""
    port = DEFAULT_PORT
    while first and port in taken:
        port += 1
    if first:
        return port
    while True:
        with socket.create_server((LOOPBACK, 0)) as server:
            found: int = server.getsockname()[1]
        if found not in taken:
            return found
