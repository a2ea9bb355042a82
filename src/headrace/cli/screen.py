"""What `headrace up` prints when it serves: where, what to try, how to stop. One screen."""

from collections.abc import Sequence

from headrace import __version__

WELCOME = """\
Headrace {version} is up.

  clients connect to   {servers}
  topics are kept in   {data}

Try it from another terminal, with kcat:

  echo hello | kcat -P -b {servers} -t greetings
  kcat -C -b {servers} -t greetings -o beginning -e

or with Python (pip install confluent-kafka):

  from confluent_kafka import Producer
  producer = Producer({{"bootstrap.servers": "{servers}"}})
  producer.produce("greetings", b"hello")
  producer.flush()

Ctrl-C stops it.
"""
NOWHERE = "a temporary directory, removed when it stops (--ephemeral)"


def welcome(bootstrap_servers: str, directories: Sequence[str] | None) -> str:
    """The screen; `directories` is None for a broker that keeps nothing."""
    data = NOWHERE if directories is None else ", ".join(directories)
    return WELCOME.format(version=__version__, servers=bootstrap_servers, data=data)
