"""The last broker error that librdkafka received.

librdkafka retries most errors and finally reports only a timeout. Its debug lines contain the
broker's error code, so a logging handler keeps the last one.
"""

import logging
import re
import time
from typing import Final

from headrace.cli.session import Session
from headrace.client.admin.brokers import describe_cluster
from headrace.client.admin.log_dirs import LogDirInfo, describe_log_dirs
from headrace.client.broker_requests import ask_brokers
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.protocol.errors import ErrorCode

GROUP: Final = "cgrp"
"""librdkafka's debug context for consumer groups: a few lines per request to a coordinator."""
PRODUCE: Final = "msg"
"""librdkafka's debug context for produce requests: a few lines per batch."""

RECENT_S: Final = 5.0
"""An older error is out of date: librdkafka retries more often than this."""
ANSWERED_S: Final = 1.0
"""A broker refuses a JoinGroup request sooner; a longer wait is for other members."""
FULL_BYTES: Final = 1024 * 1024
"""A disk with less free space counts as full: it has no space for a segment."""

_JOINING: Final = "Joining group"
_ERROR: Final = re.compile(r"Broker: ([^(\n]+?)\s*(?:\(|$)")


class BrokerErrors(logging.Handler):
    """Reads librdkafka's debug lines; a client must use `settings` to send them here."""

    def __init__(self, context: str) -> None:
        super().__init__(logging.DEBUG)
        self.last: str | None = None
        """With Kafka's name, such as NOT_COORDINATOR (Not coordinator)."""
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
            self.last = _with_kafka_name(found[1])
            self._last_at = time.monotonic()

    def recent(self) -> str | None:
        """The last error; None if it is old, or if a later JoinGroup request is still pending."""
        now = time.monotonic()
        is_waiting = self._joining_at > self._last_at and now - self._joining_at > ANSWERED_S
        return None if is_waiting or now - self._last_at > RECENT_S else self.last


def _with_kafka_name(text: str) -> str:
    from confluent_kafka import KafkaError

    for code in ErrorCode:
        if code > 0 and KafkaError(int(code)).str() == f"Broker: {text}":
            return f"{code.name} ({text})"
    return text


def full_disks(session: Session) -> str:
    """The full disks, as `disk full on broker 1: /var/lib/headrace has 0 bytes free`."""

    async def work(client: ClusterClient) -> list[str]:
        async def directories(broker: int, limit_s: float) -> list[LogDirInfo]:
            return (await describe_log_dirs(client, [broker], [], timeout_s=limit_s))[broker]

        cluster = await describe_cluster(client, timeout_s=session.timeout_s)
        ids = [broker.id for broker in cluster.live]
        found = await ask_brokers(ids, directories, timeout_s=session.timeout_s)
        return [
            f"disk full on broker {id_}: {each.path} has {each.usable_bytes:,} bytes free"
            for id_, listed in found.answers.items()
            for each in listed
            if 0 <= each.usable_bytes < FULL_BYTES
        ]

    try:
        return "; ".join(session.run(work))
    except ClientError:  # the hint is optional; the first error matters
        return ""
