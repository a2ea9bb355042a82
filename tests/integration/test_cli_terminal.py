"""The output of `headrace consume` on a terminal and in a pipe."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.testing import Broker
from support.cli.command import Cli
from support.cli.terminal import Terminal

BYTES = b"\x1b[2J\xff\x00"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for _ in range(200):
            producer.produce("t", BYTES, BYTES, headers=[("h", BYTES)])
        assert producer.flush(30) == 0
        yield broker


@pytest.fixture
def cli(broker: Broker, tmp_path: Path) -> Cli:
    return Cli(broker.bootstrap_servers, tmp_path)


def output_of(broker: Broker, command: str) -> str:
    headrace = f"{sys.executable} -m headrace"
    line = command.replace("headrace", headrace)
    environment = {"HEADRACE_BOOTSTRAP": broker.bootstrap_servers}
    terminal = Terminal(["/bin/sh", "-c", line], environment=environment)
    try:
        terminal.ended()
        return terminal.raw
    finally:
        terminal.close()


def test_control_characters_are_escaped_on_a_terminal_without_raw(
    broker: Broker,
) -> None:
    safe = output_of(broker, r"headrace consume t -c 1 -f '%k|%v|%h\n'")
    assert safe == r"\x1b[2J\xff\x00|\x1b[2J\xff\x00|h=\x1b[2J\xff\x00" + "\r\n"
    assert "\x1b[2J" in output_of(broker, "headrace consume t -c 1 --raw")
    assert "\x1b" not in output_of(broker, "headrace consume t -c 1 -f json")


def test_the_progress_count_is_not_drawn_when_output_is_piped(broker: Broker) -> None:
    assert output_of(broker, "headrace consume t -e -f '%o\\n' | head -1") == "0\r\n"


def test_bytes_round_trip_through_a_json_pipe(broker: Broker, cli: Cli) -> None:
    dump = cli.ok("consume", "t", "-c", "3", "-f", "json")
    assert '"value_encoding": "base64"' in dump
    cli.ok("produce", "copy", "--input", "json", stdin=dump)
    hexadecimal = ("--key-decoder", "hex", "--value-decoder", "hex", "--header-decoder", "hex")
    shown = cli.ok("consume", "copy", "-e", "-f", r"%k %v %h\n", *hexadecimal)
    assert shown == f"{BYTES.hex()} {BYTES.hex()} h={BYTES.hex()}\n" * 3
