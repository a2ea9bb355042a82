"""A live source for pipelines: records with every codec, bad records, transactions, and files.

The key of a record contains its kind. So a reader of the topic knows the expected result.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer

GOOD, BAD, ABORTED = b"good", b"bad", b"aborted"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BAD_SHARE = 0.08
TRANSACTION_SHARE = 0.15
PAUSE_S = 0.05
FLUSH_S = 120
LINES_PER_FILE = 40


class Feed(threading.Thread):
    """Produces the allowed number of records in bursts, also while the broker fails."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, seed: int) -> None:
        super().__init__(name="feed", daemon=True)
        self._servers = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._allowed = 0
        self._number = 0
        self.acknowledged: set[int] = set()
        """The numbers of the records sent outside of transactions."""
        self.failures: list[str] = []
        self._producers = [
            self._producer({"compression.type": codec, "linger.ms": 20}) for codec in CODECS
        ]
        self._transactional: Producer | None = None

    def _producer(self, settings: dict[str, object]) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "message.timeout.ms": 600_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **settings,
            }
        )

    def allow(self, records: int) -> None:
        """Allows this number of records beyond those already sent."""
        assert self.is_alive(), self.failures[:3]
        self._allowed = self._number + records

    def finish(self) -> None:
        """Returns when all records are acknowledged and no transaction is open."""
        self._stopping.set()
        self.join(2 * FLUSH_S)
        assert not self.is_alive(), "the feed does not end"
        assert not self.failures, self.failures[:3]

    def run(self) -> None:
        try:
            while not self._stopping.wait(PAUSE_S):
                if self._number < self._allowed:
                    self._burst(self._random.randint(5, 40))
            self._transaction(20, commit=False)  # the log ends with records that must not be read
        except Exception as error:
            self.failures.append(repr(error))
        for producer in self._producers:
            if producer.flush(FLUSH_S):
                self.failures.append("records are not acknowledged")

    def _burst(self, count: int) -> None:
        if self._random.random() < TRANSACTION_SHARE:
            self._transaction(count, commit=self._random.random() < 0.5)
            return
        producer = self._random.choice(self._producers)
        for _ in range(count):
            key, value, number = self._record()
            producer.produce(
                self._topic, value, key, self._partition(), on_delivery=self._delivered(number)
            )
        producer.poll(0)

    def _partition(self) -> int:
        return self._random.randrange(self._partitions)

    def _record(self) -> tuple[bytes, bytes, int]:
        number = self._number
        self._number += 1
        if self._random.random() < BAD_SHARE:
            return BAD, self._random.choice(BAD_VALUES)(number), number
        return GOOD, json.dumps({"id": number, "amount": number / 4}).encode(), number

    def _delivered(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def noted(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acknowledged.add(number)
            else:
                self.failures.append(str(error))

        return noted

    # --- transactions ---------------------------------------------------------------------------

    def _transaction(self, count: int, *, commit: bool) -> None:
        """If the broker dies, only the log shows the transaction's outcome."""
        try:
            producer = self._transactional or self._new_transactional()
            self._transactional = producer
            producer.begin_transaction()
            for _ in range(count):
                key, value, _number = self._record()
                producer.produce(self._topic, value, key if commit else ABORTED, self._partition())
            producer.flush(FLUSH_S)
            end = producer.commit_transaction if commit else producer.abort_transaction
            _until_done(lambda: end(FLUSH_S))
        except KafkaException:
            self._transactional = None  # the next producer aborts the transaction
            if not commit:
                self._transactional = self._new_transactional()

    def _new_transactional(self) -> Producer:
        producer = self._producer(
            {
                "transactional.id": f"feed-{self._topic}",
                "transaction.timeout.ms": 60_000,
                "message.timeout.ms": 60_000,
                "compression.type": "zstd",
            }
        )
        _until_done(lambda: producer.init_transactions(FLUSH_S))
        return producer


def _until_done(call: Callable[[], None]) -> None:
    give_up = time.monotonic() + FLUSH_S
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > give_up:
                raise


BAD_VALUES: Sequence[Callable[[int], bytes]] = (
    lambda number: b'{"id": %d, ' % number,
    lambda number: b'{"id": %d, "amount": "many"}' % number,
    lambda number: b'{"id": %d, "amount": -1.0}' % number,  # violates an expectation
    lambda number: b'\xff\xfe{"id": %d}' % number,
)


BAD_LINE = '{"id": "none"}'


class FileFeed:
    """Writes lines into a folder, one whole file at a time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.lines = 0
        """The good lines; each has a unique number."""
        self.bad: list[tuple[str, int]] = []
        """The bad lines, by file and line number."""

    def add(self, files: int) -> None:
        for _ in range(files):
            numbers = range(self.lines, self.lines + LINES_PER_FILE)
            part = self._folder / f".{self.lines}.part"
            good = [f'{{"id": {number}}}' for number in numbers]
            lines = [good[0], BAD_LINE, *good[1:], BAD_LINE]
            part.write_text("\n".join(lines))
            file = part.rename(self._folder / f"{self.lines:08}.json")
            self.bad += ((str(file), at) for at, line in enumerate(lines, 1) if line == BAD_LINE)
            self.lines += LINES_PER_FILE
