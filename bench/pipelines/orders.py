"""A topic of JSON orders, some of which are broken."""

import json
import time
from collections.abc import Iterator
from random import Random

from confluent_kafka import Producer

SCHEMA = "id BIGINT, customer STRING, amount DOUBLE, country STRING, ts TIMESTAMP"
BROKEN_EACH = 1000
"""One record in this many does not parse."""
SELECT = "SELECT id, customer, amount, country, ts, CAST(ts AS DATE) AS day FROM source"
LEAST_AMOUNT = 1.5
EXPECT = f"amount >= {LEAST_AMOUNT}"
"""A rule that about one order in a thousand does not meet."""
COUNTRIES = ("DE", "FR", "US", "JP", "BR")
QUEUE_MESSAGES = 500_000
FLUSH_TIMEOUT_S = 120.0


def order(number: int, random: Random) -> bytes:
    """One order as JSON, about 110 bytes."""
    text = json.dumps(
        {
            "id": number,
            "customer": f"customer-{random.randrange(100_000)}",
            "amount": round(random.uniform(1, 500), 2),
            "country": random.choice(COUNTRIES),
            "ts": f"2026-01-{random.randrange(1, 29):02}T{random.randrange(24):02}:00:00Z",
        }
    )
    return text.encode()


def orders(count: int, *, seed: int = 1) -> Iterator[bytes]:
    """That many orders; every thousandth is truncated in the middle."""
    random = Random(seed)
    for number in range(count):
        made = order(number, random)
        yield made[: len(made) // 2] if number % BROKEN_EACH == BROKEN_EACH - 1 else made


def broken(count: int) -> int:
    return count // BROKEN_EACH


def unexpected(count: int) -> int:
    """How many of that many orders are readable but do not meet `EXPECT`."""
    whole = (each for each in orders(count) if each.endswith(b"}"))
    return sum(json.loads(each)["amount"] < LEAST_AMOUNT for each in whole)


def fill(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    """Produces the orders and waits until all are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "1",
            "linger.ms": 20,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": QUEUE_MESSAGES,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    for number, value in enumerate(orders(count)):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(FLUSH_TIMEOUT_S)
    if left:
        raise TimeoutError(f"{left} orders were not acknowledged in {FLUSH_TIMEOUT_S:g} s")


def produce_paced(bootstrap: str, topic: str, partitions: int, rate: int, seconds: float) -> None:
    """Sends orders at a fixed rate, whatever the broker does.

    The `id` of each is its send time in milliseconds.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    random = Random(2)
    began = time.monotonic()
    for number in range(int(rate * seconds)):
        pause = began + number / rate - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        value = order(time.time_ns() // 1_000_000, random)
        producer.produce(topic, value, partition=number % partitions)
        producer.poll(0)
    producer.flush(FLUSH_TIMEOUT_S)
