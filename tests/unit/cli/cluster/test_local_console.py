"""The console of a local cluster has a port that no broker uses."""

import socket
from pathlib import Path

import pytest

from headrace.cli.cluster.local_console import DEFAULT_PORT, LocalConsole, console_port
from headrace.cli.exit_codes import CommandFailed


def test_the_default_port_gives_way_to_the_brokers() -> None:
    assert console_port(9092, {9092, 9093}) == DEFAULT_PORT
    # cluster up --http 9644
    assert console_port(9092, {9092, 9644, DEFAULT_PORT, DEFAULT_PORT + 1}) == DEFAULT_PORT + 2


def test_brokers_on_free_ports_have_a_console_on_a_free_port() -> None:
    port = console_port(0, set())
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_in_use_is_reported_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandFailed, match=str(port)):
            LocalConsole(port, tmp_path).check()
    LocalConsole(port, tmp_path).check()
