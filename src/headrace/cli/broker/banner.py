"""What `headrace up` prints when the broker is ready: the address, examples, how to stop."""

import os
import sys
from collections.abc import Sequence

from headrace import __version__

WELCOME = """\
Headrace {version} is up.

  clients connect to   {servers}
  topics are kept in   {data}
{metrics}
Try it from another terminal:

  echo hello | {program} produce greetings -b {servers}
  {program} consume greetings -e -b {servers}
  {program} --help

or with Python:

  from confluent_kafka import Producer
  producer = Producer({{"bootstrap.servers": "{servers}"}})
  producer.produce("greetings", b"hello")
  producer.flush()

Ctrl-C stops it.
"""
PROGRAM = "headrace"
NOWHERE = "a temporary directory, removed on exit (--ephemeral)"


def welcome(
    bootstrap_servers: str, directories: Sequence[str] | None, http: str | None = None
) -> str:
    """The text; `directories` is None for an ephemeral broker, `http` without an HTTP port."""
    data = NOWHERE if directories is None else ", ".join(directories)
    return WELCOME.format(
        version=__version__,
        servers=bootstrap_servers,
        data=data,
        program=program_name(),
        metrics=metrics_line(http),
    )


def serves(node_id: int, servers: str, http: str | None = None) -> str:
    """The one line of `broker start`."""
    metrics = "" if http is None else f", metrics at {http}/metrics"
    return f"Headrace {__version__}: broker {node_id} serves {servers}{metrics}\n"


def metrics_line(http: str | None) -> str:
    """The line with the address of the HTTP port, if there is one."""
    return "" if http is None else f"  metrics are at       {http}/metrics\n"


def program_name() -> str:
    """The command that runs this program from another terminal in the same directory."""
    path = sys.argv[0]
    folder, name = os.path.split(path)
    if name != PROGRAM:
        return f"python -m {PROGRAM}"
    if folder in os.environ.get("PATH", "").split(os.pathsep):
        return PROGRAM
    nearby = os.path.relpath(path)
    return path if nearby.startswith(os.pardir) else nearby
