"""Sends the demo's orders at a steady pace, and keeps in mind which became what record."""

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headrace.pipeline.demo.orders import LANDS, Order

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

TURN_S: Final = 0.1
FLUSH_S: Final = 1.0

Place = tuple[int, int]
"""Partition and offset."""


class Traffic:
    """A thread that sends orders; `delivered` and `broken` are what the cluster has taken."""

    def __init__(
        self, servers: str, topic: str, orders: Iterable[Order], orders_per_second: int
    ) -> None:
        self.delivered = 0
        self.broken: dict[Place, str] = {}
        """The error class that each broken order must end with."""
        self.failure: str | None = None
        self._servers = servers
        self._topic = topic
        self._orders = orders
        self._a_turn = max(1, round(orders_per_second * TURN_S))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Sends no more, and waits for what is on its way."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def is_over(self) -> bool:
        """Whether every order that will be sent is in the topic."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def _run(self) -> None:
        from confluent_kafka import KafkaException, Producer

        try:
            producer = Producer(
                {"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 20}
            )
            self._send(producer)
            while producer.flush(FLUSH_S) and self.failure is None:
                pass
        except KafkaException as error:
            self.failure = error.args[0].str()

    def _send(self, producer: "Producer") -> None:
        began = time.monotonic()
        for number, order in enumerate(self._orders):
            self._produce(producer, order)
            if (number + 1) % self._a_turn == 0:
                producer.poll(0)
                due = began + (number + 1) // self._a_turn * TURN_S
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    return

    def _produce(self, producer: "Producer", order: Order) -> None:
        def note(error: "KafkaError | None", message: "Message") -> None:
            if error is not None:
                self.failure = error.str()
                return
            if order.error != LANDS:
                self.broken[(message.partition() or 0, message.offset() or 0)] = order.error
            self.delivered += 1

        while True:
            try:
                producer.produce(self._topic, order.value, order.key, on_delivery=note)
            except BufferError:  # the queue is full: let some of it go out first
                producer.poll(TURN_S)
            else:
                return
