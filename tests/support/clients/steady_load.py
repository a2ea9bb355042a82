"""An idempotent producer in the background, and a check that each of its records exists once."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

FLUSH_S = 120.0
READ_S = 120.0
PACE_S = 0.002
RETRY_S = 0.1


class SteadyLoad:
    """Writes numbers to `partitions` partitions at the same time, until its block ends."""

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        value: Callable[[int], bytes] = lambda number: str(number).encode(),
    ) -> None:
        self._value = value
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._last_ack = time.monotonic()
        self.sent = 0
        self.acked = 0
        self.longest_silence_s = 0.0
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
            }
        )
        while not self._stop.is_set():
            for partition in range(self._partitions):
                producer.produce(
                    self._topic,
                    self._value(self.sent),
                    partition=partition,
                    on_delivery=self._delivered,
                )
            self.sent += 1
            producer.poll(PACE_S)
        left = producer.flush(FLUSH_S)
        if left:
            self.errors.append(f"{left} records were not delivered")

    def _delivered(self, error: KafkaError | None, message: object) -> None:
        now = time.monotonic()
        if error is not None:
            self.errors.append(str(error))
            return
        self.acked += 1
        self.longest_silence_s = max(self.longest_silence_s, now - self._last_ack)
        self._last_ack = now

    def check(self, servers: str) -> None:
        """Every partition contains every number once, in order."""
        assert self.errors == []
        assert self.sent > 0
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "check"})
        seen: dict[int, list[int]] = {each: [] for each in range(self._partitions)}
        try:
            consumer.assign([TopicPartition(self._topic, each, OFFSET_BEGINNING) for each in seen])
            give_up = time.monotonic() + READ_S
            while sum(map(len, seen.values())) < self.sent * self._partitions:
                assert time.monotonic() < give_up, {each: len(of) for each, of in seen.items()}
                for message in consumer.consume(1000, timeout=1.0):
                    if message.error() is None:
                        seen[message.partition()].append(int(message.value()))
            ends = {each: self._end_of(consumer, each, give_up) for each in seen}
        finally:
            consumer.close()
        read = {each: len(of) for each, of in seen.items()}
        assert ends == dict.fromkeys(seen, self.sent), f"{self.sent} sent; {ends=}; {read=}"
        assert all(of == list(range(self.sent)) for of in seen.values())

    def _end_of(self, consumer: Consumer, partition: int, give_up: float) -> int:
        """Tries again while the client learns who leads the partition."""
        while True:
            try:
                return consumer.get_watermark_offsets(TopicPartition(self._topic, partition))[1]
            except KafkaException:
                if time.monotonic() > give_up:
                    raise
                time.sleep(RETRY_S)
