"""`headrace console` and `headrace up --console` as processes."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from support.waiting import wait_for

ADDRESS = re.compile(r"The console is at (http://\S+)")
TIMEOUT_S = 60.0


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address_in(stream: IO[str] | None) -> str:
    assert stream is not None
    for line in stream:
        found = ADDRESS.search(line)
        if found:
            return found[1]
    raise AssertionError("the console did not say where it is")


def page(address: str) -> str:
    with urlopen(address, timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode())


def is_gone(address: str) -> bool:
    try:
        page(address)
    except (URLError, ConnectionError):
        return True
    return False


def test_a_console_serves_until_it_is_stopped(bootstrap: str) -> None:
    with running("console", "-b", bootstrap, "--listen", "127.0.0.1:0", "--name", "X1") as process:
        address = address_in(process.stdout)
        assert "X1" in page(address)
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--listen", "nowhere:x"), "--listen takes HOST:PORT"),
        (("--listen", "0.0.0.0:0"), "--host-name"),
        (("--tls-key", "key.pem"), "--tls-key needs --tls-cert"),
        (("--listen", "203.0.113.1:1"), "cannot listen on 203.0.113.1:1"),
    ],
)
def test_a_console_that_cannot_start_says_why(words: tuple[str, ...], text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "console", "-b", "127.0.0.1:1", *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode in (1, 2)
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_console_of_a_broker_ends_with_it(number: signal.Signals) -> None:
    with running("up", "--console", "--ephemeral", "--port", "0") as process:
        address = address_in(process.stderr)
        assert "All brokers answer" in page(address)
        process.send_signal(number)
        process.wait(TIMEOUT_S)
        wait_for(lambda: is_gone(address), "the console has ended")
