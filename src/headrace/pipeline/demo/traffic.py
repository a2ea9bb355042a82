"""Sends the demo's orders, and remembers the partition and offset of each.

A backlog is sent at once. The rest follows at a steady rate after the pipeline has written records.
So there is something to watch however long Spark takes to start.
"""

import threading
import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.pipeline.demo.orders import LANDS, Order

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

TURN_S: Final = 0.1
FLUSH_S: Final = 1.0

Place = tuple[int, int]
"""Partition and offset."""


class Traffic:
    """A thread that sends orders. `delivered` and `broken` contain only acknowledged orders."""

    def __init__(
        self,
        servers: str,
        topic: str,
        orders: Iterable[Order],
        *,
        orders_per_second: int,
        backlog: int = 0,
    ) -> None:
        self.delivered = 0
        self.broken: dict[Place, str] = {}
        """The expected error class of each invalid order."""
        self.failure: str | None = None
        self._servers = servers
        self._topic = topic
        self._orders = orders
        self._a_turn = max(1, round(orders_per_second * TURN_S))
        self._backlog = backlog
        self._stop = threading.Event()
        self._go_on = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def go_on(self) -> None:
        """Starts to send the orders after the backlog."""
        self._go_on.set()

    def stop(self) -> None:
        """Stops sending, and waits for the records in flight."""
        self._stop.set()
        self._go_on.set()
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
        orders = iter(self._orders)
        for order in islice(orders, self._backlog):
            self._produce(producer, order)
        # Records must be delivered before the wait, because nothing else polls the producer
        # meanwhile.
        while producer.flush(FLUSH_S) and not self._stop.is_set():
            pass
        self._go_on.wait()
        began = time.monotonic()
        for number, order in enumerate(orders):
            if number % self._a_turn == 0:
                producer.poll(0)
                due = began + number // self._a_turn * TURN_S
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    return
            self._produce(producer, order)

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
            except BufferError:  # the queue is full: wait until some records are delivered
                producer.poll(TURN_S)
            else:
                return
