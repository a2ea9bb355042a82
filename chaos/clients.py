"""The clients of a run, one thread each; the history records what they send and see.

They use librdkafka with the settings of a careful user: idempotence, acks=all, read_committed. They
continue after errors. A producer that cannot continue is replaced, even if the library leaves an
error behind that Python notices later (SystemError). A producer that would abort a transaction with
unanswered sends is replaced, too: librdkafka then reuses their sequence numbers for other records,
which every broker treats as duplicates.
"""

import math
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from chaos.history import NO_OFFSET, Found, History, Look, Poll, Send, Transaction

TOPIC = "chaos"
PARTITIONS = 8
SENDS_PER_S = 90.0
TRANSACTIONS_PER_S = 8.0
MAX_TRANSACTION_SENDS = 6
ABORTED_SHARE = 0.2
LOOKS_PER_S = 10.0
MAX_WAITING = 1000
POLL_RECORDS, POLL_S = 100, 0.1
# As patient as Java's producer. A librdkafka producer that gives up a record takes a new epoch and
# sends its other pending records again as new ones, which creates duplicates.
MESSAGE_TIMEOUT_MS = 120_000
PATIENCE_MS = 10_000
TRANSACTION_TIMEOUT_MS = 10_000
CALL_S, END_S = 5.0, 60.0
PAUSE_S = 0.2
# librdkafka's messages on producer ids, epochs and sequence numbers explain why it sent a record
# again. They go to the process's standard error, because a Python logger may be called at an unsafe
# moment.
PRODUCER_DEBUG = "eos"

Settings = dict[str, Any]


def now() -> float:
    return time.monotonic()


class Client(threading.Thread):
    """Ends on request; `progress` counts successful operations."""

    def __init__(
        self, name: str, bootstrap: str, history: History, seed: int, login: Settings
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.history = history
        self.random = random.Random(f"{seed}/{name}")
        self.progress = 0
        self.errors: dict[str, int] = {}
        # Why the thread ended early: then its part of the history is missing.
        self.crash = ""
        self._ending = threading.Event()
        self._settings: Settings = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "log_level": 0,
            "socket.timeout.ms": 3000,
            "socket.connection.setup.timeout.ms": 3000,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 2000,
            **login,
        }

    def work(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        try:
            self.work()
        except Exception as problem:
            self.crash = f"{self.name}: {problem!r}"

    @property
    def ending(self) -> bool:
        return self._ending.is_set()

    def end(self) -> None:
        self._ending.set()

    def rest(self, seconds: float) -> None:
        self._ending.wait(seconds)

    def met(self, error: KafkaError | None) -> None:
        name = str(error.name()) if error is not None else "unknown"
        self.errors[name] = self.errors.get(name, 0) + 1


class _Sender(Client):
    """The common part of both kinds of producer: sends that are recorded in the history."""

    def __init__(
        self, name: str, bootstrap: str, history: History, seed: int, login: Settings
    ) -> None:
        super().__init__(name, bootstrap, history, seed, login)
        self._orders = 0
        self._lives = 0
        self._settings |= {
            "debug": PRODUCER_DEBUG,
            "log_level": 7,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "message.timeout.ms": MESSAGE_TIMEOUT_MS,
            # A producer that times out sends records again that may already be in the log.
            "socket.timeout.ms": PATIENCE_MS,
        }

    def _open(self) -> Producer:
        self._lives += 1
        return Producer(self._settings)

    def _send(self, producer: Producer, transaction: str = "") -> None:
        """May raise BufferError or KafkaException: then nothing was sent."""
        order, life = self._orders, self._lives
        self._orders += 1
        partition = self.random.randrange(PARTITIONS)
        value = f"{self.name}:{order}"
        invoked = now()

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            known = error is None and offset is not None and offset >= 0
            if error is None:
                self.progress += 1
            else:
                self.met(error)
            self.history.sends.append(
                Send(
                    client=self.name,
                    producer=life,
                    order=order,
                    partition=partition,
                    value=value,
                    invoked=invoked,
                    completed=now(),
                    outcome="ok" if error is None else "unknown",
                    offset=int(offset or 0) if known else NO_OFFSET,
                    transaction=transaction,
                )
            )

        producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=delivered)


class Sending(_Sender):
    """Single records to random partitions, at a steady rate."""

    def work(self) -> None:
        producer = self._open()
        due = now()
        while not self.ending:
            due = max(due + 1 / SENDS_PER_S, now() - 1)
            try:
                if len(producer) < MAX_WAITING:
                    self._send(producer)
                producer.poll(max(0.0, due - now()))
            except (BufferError, KafkaException, SystemError) as problem:
                self.met(problem.args[0] if isinstance(problem, KafkaException) else None)
                _drain(producer)
                producer = self._open()
        producer.flush(END_S)


class Transacting(_Sender):
    """Transactions of a few records over random partitions; some are aborted on purpose."""

    def __init__(
        self, name: str, bootstrap: str, history: History, seed: int, login: Settings
    ) -> None:
        super().__init__(name, bootstrap, history, seed, login)
        self._settings |= {
            "transactional.id": name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
        self._count = 0
        self._give_up = math.inf

    def end(self) -> None:
        self._give_up = now() + END_S
        super().end()

    def work(self) -> None:
        producer: Producer | None = None
        while not self.ending:
            if producer is None:
                producer = self._new()
                continue
            began = now()
            if not self._transaction(producer):
                _drain(producer)
                producer = None
            self.rest(max(0.0, 1 / TRANSACTIONS_PER_S - (now() - began)))
        if producer is not None:
            _drain(producer)

    def _new(self) -> Producer | None:
        producer = self._open()
        while not self.ending:
            try:
                producer.init_transactions(CALL_S)
            except KafkaException as problem:
                self.met(problem.args[0])
                if problem.args[0].fatal():
                    return None
                self.rest(PAUSE_S)
            else:
                return producer
        return None

    def _transaction(self, producer: Producer) -> bool:
        """Runs one transaction; false if the producer cannot continue."""
        self._count += 1
        name = f"{self.name}/{self._count}"
        abort = self.random.random() < ABORTED_SHARE
        asked = math.inf
        outcome: str = "unknown"
        try:
            producer.begin_transaction()
            for _ in range(self.random.randint(1, MAX_TRANSACTION_SENDS)):
                self._send(producer, name)
            if abort and not self._all_answered(producer):
                outcome = "unknown"
            else:
                asked = now()
                outcome = self._finish(producer, abort=abort)
        except (BufferError, SystemError):
            self.met(None)
        except KafkaException as problem:
            self.met(problem.args[0])
            if problem.args[0].txn_requires_abort() and self._all_answered(producer):
                asked = min(asked, now())
                with suppress(KafkaException):
                    outcome = self._finish(producer, abort=True)
        if outcome == "committed":
            self.progress += 1
        done = Transaction(name, self.name, outcome, asked, now())  # type: ignore[arg-type]
        self.history.transactions.append(done)
        return outcome != "unknown"

    def _all_answered(self, producer: Producer) -> bool:
        """Whether every send is answered without an error; an abort then has records to hide."""
        before = sum(self.errors.values())
        with suppress(KafkaException):
            return producer.flush(CALL_S) == 0 and sum(self.errors.values()) == before
        return False

    def _finish(self, producer: Producer, *, abort: bool) -> str:
        """Commits or aborts, and retries while the response is only late."""
        call: Callable[[float], None] = (
            producer.abort_transaction if abort else producer.commit_transaction
        )
        while True:
            try:
                call(CALL_S)
            except KafkaException as problem:
                self.met(problem.args[0])
                if not problem.args[0].retriable() or now() > self._give_up:
                    raise
            else:
                return "aborted" if abort else "committed"


class Reading(Client):
    """Reads all partitions from their beginning, by assignment or as a member of a group."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        history: History,
        seed: int,
        login: Settings,
        *,
        subscribed: bool,
    ) -> None:
        super().__init__(name, bootstrap, history, seed, login)
        self._subscribed = subscribed
        self._assignments = 0
        self._settings |= {
            "group.id": f"group-of-{name}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": subscribed,
            "fetch.wait.max.ms": 100,
        }

    def work(self) -> None:
        consumer = Consumer(self._settings)
        if self._subscribed:
            consumer.subscribe([TOPIC], on_assign=self._assigned)
        else:
            consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
        while not self.ending:
            self._poll(consumer)
        consumer.close()

    def _assigned(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._assignments += 1

    def _poll(self, consumer: Consumer) -> None:
        began = now()
        try:
            messages = consumer.consume(POLL_RECORDS, POLL_S)
        except KafkaException as problem:
            self.met(problem.args[0])
            self.rest(PAUSE_S)
            return
        found = []
        for message in messages:
            if message.error() is not None:
                self.met(message.error())
            else:
                found.append(found_in(message))
        self.progress += len(found)
        poll = Poll(self.name, self._assignments, self._subscribed, began, now(), tuple(found))
        self.history.polls.append(poll)


class Looking(Client):
    """Queries the end offsets of partitions."""

    def work(self) -> None:
        consumer = Consumer(
            self._settings | {"group.id": "looking", "isolation.level": "read_uncommitted"}
        )
        while not self.ending:
            partition = self.random.randrange(PARTITIONS)
            began = now()
            try:
                _, end = consumer.get_watermark_offsets(
                    TopicPartition(TOPIC, partition), timeout=CALL_S, cached=False
                )
            except KafkaException as problem:
                self.met(problem.args[0])
            else:
                self.progress += 1
                self.history.looks.append(Look(self.name, partition, began, end))
            self.rest(1 / LOOKS_PER_S)
        consumer.close()


def _drain(producer: Producer) -> None:
    """Handles the reports of pending sends; a failed producer reports its error again."""
    with suppress(KafkaException):
        producer.flush(CALL_S)


def found_in(message: Message) -> Found:
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return Found(partition, offset, value.decode())


def all_clients(
    bootstrap: str, history: History, seed: int, login: Settings | None = None
) -> list[Client]:
    """`login` has the settings of clients of a secured cluster."""
    same = (bootstrap, history, seed, login or {})
    return [
        Sending("sending-1", *same),
        Sending("sending-2", *same),
        Transacting("transacting-1", *same),
        Transacting("transacting-2", *same),
        Reading("assigned", *same, subscribed=False),
        Reading("subscribed", *same, subscribed=True),
        Looking("looking", *same),
    ]
