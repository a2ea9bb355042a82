"""A topic with everything that a log can contain: codecs, headers, transactions, bad records."""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.pipelines.outputs import committed

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BROKEN = b'{"id": 7, "amount": '
DEADLINE_S = 120.0
FIRST_ABORTED = 1_000_000


class Order(NamedTuple):
    """A good record and its position."""

    partition: int
    offset: int
    id: int
    trace: str


class MixedTopic:
    """A topic whose producers never send the same id twice."""

    def __init__(self, bootstrap: str, name: str, partitions: int = 2) -> None:
        self.name = name
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._next = 0
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(timeout=DEADLINE_S)

    def fill(self, per_codec: int) -> None:
        """Writes plain records, a committed and an aborted transaction for each codec.

        Each partition also gets a record that is not JSON.
        """
        for codec in CODECS:
            settings = {"bootstrap.servers": self._bootstrap, "compression.type": codec}
            plain = Producer(settings)
            self._send(plain, self._ids(per_codec))
            for partition in range(self._partitions):
                plain.produce(self.name, BROKEN, b"broken", partition, headers=[("trace", b"bad")])
            assert plain.flush(DEADLINE_S) == 0
            writer = Producer({**settings, "transactional.id": f"{self.name}-{codec}"})
            writer.init_transactions(DEADLINE_S)
            writer.begin_transaction()
            self._send(writer, self._ids(per_codec))
            writer.commit_transaction(DEADLINE_S)
            writer.begin_transaction()
            self._send(writer, range(FIRST_ABORTED, FIRST_ABORTED + per_codec))
            writer.flush(DEADLINE_S)
            writer.abort_transaction(DEADLINE_S)

    def _ids(self, count: int) -> range:
        ids = range(self._next, self._next + count)
        self._next = ids.stop
        return ids

    def _send(self, producer: Producer, ids: Iterable[int]) -> None:
        for number in ids:
            producer.produce(
                self.name,
                json.dumps({"id": number, "amount": number / 4, "note": "x" * 80}).encode(),
                partition=number % self._partitions,
                headers=[("trace", f"t{number}".encode())],
            )

    def orders(self) -> list[Order]:
        """The good committed records, in order."""
        return sorted(self._orders())

    def _orders(self) -> Iterator[Order]:
        for message in committed(self._bootstrap, self.name):
            if message.value() != BROKEN:
                trace = dict(message.headers() or [])["trace"].decode()
                number = json.loads(message.value() or b"")["id"]
                yield Order(message.partition() or 0, message.offset() or 0, number, trace)

    def broken(self) -> list[tuple[int, int]]:
        """(partition, offset) of the records that are not JSON."""
        return sorted(
            (message.partition() or 0, message.offset() or 0)
            for message in committed(self._bootstrap, self.name)
            if message.value() == BROKEN
        )
