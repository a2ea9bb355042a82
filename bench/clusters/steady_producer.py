"""A paced, idempotent producer that continues through every fault of the brokers.

It uses confluent-kafka's librdkafka, not the system's. Older versions accept metadata from a leader
that does not know yet that it was replaced, and then fail permanently at missing sequence numbers.
A careful user has the newer one.
"""

import threading
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bench.load_generator import LoadError

READY_S, FINISH_S = 60.0, 120.0
POLL_S = 0.001
VALUE = b"x" * 100


class SteadyProducer:
    """Sends from `start` to `finish`; `longest_gap_s` is the longest time between two acks."""

    def __init__(self, bootstrap: str, topic: str, *, rate: int, patience_ms: int) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": "headrace-bench",
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "socket.nagle.disable": True,
            "socket.timeout.ms": patience_ms,
            "topic.metadata.refresh.fast.interval.ms": 10,
            "topic.metadata.refresh.interval.ms": 500,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 20,
            "log_level": 0,
        }
        self.topic = topic
        self.sent = self.acked = self.failed = 0
        self.longest_gap_s = 0.0
        self.words = ""
        self._last_ack = 0.0
        self._step_s = 1 / rate
        self._producer = Producer(settings)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def start(self) -> None:
        """Returns at the first acknowledgement."""
        self._thread.start()
        deadline = time.monotonic() + READY_S
        while not self.acked:
            if time.monotonic() > deadline:
                self._stop.set()
                raise LoadError(f"no ack: {self.words}")
            time.sleep(POLL_S)

    def finish(self) -> None:
        """Returns when every record that was sent is answered."""
        self._stop.set()
        self._thread.join(FINISH_S)
        if self._thread.is_alive() or self.failed or self.acked != self.sent:
            raise LoadError(
                f"{self.sent} sent, {self.acked} acknowledged, {self.failed} failed: {self.words}"
            )

    def abandon(self) -> None:
        self._stop.set()

    def _send(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                self._producer.produce(self.topic, VALUE, partition=0, on_delivery=self._delivered)
            except (BufferError, KafkaException) as problem:
                self.words = str(problem)
            else:
                self.sent += 1
            due += self._step_s
            while (wait := due - time.monotonic()) > 0:
                self._producer.poll(wait)
        self._producer.flush(FINISH_S)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        now = time.monotonic()
        if error is not None:
            self.failed += 1
            self.words = str(error)
            return
        if self.acked:
            self.longest_gap_s = max(self.longest_gap_s, now - self._last_ack)
        self.acked += 1
        self._last_ack = now
