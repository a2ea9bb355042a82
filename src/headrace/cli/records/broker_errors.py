"""The last error that a broker answered to librdkafka.

librdkafka retries most errors by itself and reports only that time ran out. Its debug lines name
the error, so this handler keeps the last one.
"""

import logging
import re
import time
from typing import Final

from headrace.cli.session import Session
from headrace.client.brokers import describe_cluster
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.client.log_dirs import describe_log_dirs
from headrace.protocol.errors import ErrorCode

GROUP: Final = "cgrp"
"""librdkafka's debug context of consumer groups: a few lines for each request to a coordinator."""
PRODUCE: Final = "msg"
"""librdkafka's debug context of produce requests: a few lines for each batch."""

RECENT_S: Final = 5.0
"""librdkafka retries more often than that."""
ANSWERED_S: Final = 1.0
"""A broker refuses sooner; a request to join that waits for longer waits for other members."""
FULL_BYTES: Final = 1024 * 1024
"""A disk with less space takes no further segment."""

_JOINING: Final = "Joining group"
_ERROR: Final = re.compile(r"Broker: ([^(\n]+?)\s*(?:\(|$)")


class BrokerErrors(logging.Handler):
    """Reads librdkafka's debug lines; `settings` are what the client needs for it."""

    def __init__(self, context: str) -> None:
        super().__init__(logging.DEBUG)
        self.last: str | None = None
        """As Kafka names it: NOT_COORDINATOR (Not coordinator)."""
        self._last_at = 0.0
        self._joining_at = 0.0
        logger = logging.getLogger(f"headrace.rdkafka.{context}")
        logger.propagate = False
        logger.setLevel(logging.DEBUG)
        logger.handlers = [self]
        self.settings: dict[str, object] = {"debug": context, "logger": logger}

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if _JOINING in message:
            self._joining_at = time.monotonic()
        found = _ERROR.search(message)
        if found is not None:
            self.last = _named(found[1])
            self._last_at = time.monotonic()

    def recent(self) -> str | None:
        """The last error, unless it is old or a request to join waits for its answer since."""
        now = time.monotonic()
        is_waiting = self._joining_at > self._last_at and now - self._joining_at > ANSWERED_S
        return None if is_waiting or now - self._last_at > RECENT_S else self.last


def _named(text: str) -> str:
    from confluent_kafka import KafkaError

    for code in ErrorCode:
        if code > 0 and KafkaError(int(code)).str() == f"Broker: {text}":
            return f"{code.name} ({text})"
    return text


def full_disks(session: Session) -> str:
    """`disk full on broker 1: /var/lib/headrace`, or nothing where no broker says so."""

    async def work(client: ClusterClient) -> list[str]:
        cluster = await describe_cluster(client, timeout_s=session.timeout_s)
        ids = [broker.id for broker in cluster.live]
        found = await describe_log_dirs(client, ids, [], timeout_s=session.timeout_s)
        return [
            f"disk full on broker {id_}: {each.path} has {each.usable_bytes:,} bytes free"
            for id_, directories in found.items()
            for each in directories
            if 0 <= each.usable_bytes < FULL_BYTES
        ]

    try:
        return "; ".join(session.run(work))
    except ClientError:  # a hint is not worth a second failure
        return ""
