"""Bootstrap addresses that accept a connection but never respond do not block a command.

A broker paused by a signal behaves like this: the kernel accepts connections for it.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.testing import Broker
from support.cli.command import Cli

TRIES = 8


@pytest.fixture
def silent() -> Iterator[list[str]]:
    with ExitStack() as opened:
        servers = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        yield [f"127.0.0.1:{server.getsockname()[1]}" for server in servers]


def test_the_other_addresses_are_tried_within_a_short_timeout(
    silent: list[str], tmp_path: Path
) -> None:
    with Broker() as broker:
        cli = Cli(",".join([*silent, broker.bootstrap_servers]), tmp_path)
        for _ in range(TRIES):  # the order is random
            cli.ok("topic", "list", "--timeout", "2")


def test_all_silent_addresses_are_reported_with_the_timeout(
    silent: list[str], tmp_path: Path
) -> None:
    ended = Cli(",".join(silent), tmp_path)("topic", "list", "--timeout", "0.5")
    assert ended.code == 5
    tried = ", ".join(silent)
    assert ended.stderr == (
        f"headrace: no broker answered within 0.5 s (tried {tried}); "
        "raise --timeout to wait longer\n"
    )
