"""Bank transfers in transactions always balance, whatever fails.

Tellers work through numbered orders. An order moves an amount from one account to another and
commits the teller's position, in one transaction. Meanwhile tellers abort, vanish in the middle of
a transaction, hang up before the answer comes, and are replaced while their old EndTxn and records
are still on the way; ghosts never end their transactions; the broker is killed and restarted.

A read_committed consumer sees every order up to the committed position exactly once, with
both its sides, and nothing else; later reads return the same.

HEADRACE_BANK_S sets the duration, HEADRACE_BANK_SEED the faults.
"""

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.end_txn import EndTxnRequest
from support.brokers.processes import BrokerProcess
from support.waiting import wait_for
from support.wire.committed_reader import CommittedReader
from support.wire.connection import ConnectionEnded, Wire
from support.wire.topics import create_topic
from support.wire.transactional_producer import (
    GROUP_KEY,
    V1,
    V2,
    Protocol,
    TransactionalProducer,
    committed_offset,
    find_coordinator,
)

LASTS_S = float(os.environ.get("HEADRACE_BANK_S", "5"))
SEED = int(os.environ.get("HEADRACE_BANK_SEED", str(random.randrange(2**32))))
TELLERS = 4
TOPIC = "accounts"
PARTITIONS = 3
KILL_EVERY_S = 2.0
TIMEOUT_MS = 2_000
SETTLE_S = 90.0
LEAST_ORDERS = 10
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.num.partitions": 3,
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300 + 3 * LASTS_S),
    pytest.mark.skipif(
        bool(os.environ.get("HEADRACE_TEST_BOOTSTRAP")), reason="needs a broker that it may kill"
    ),
]

# Errors a teller may get when its broker restarts, its transaction times out or it is replaced.
INNOCENT = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
}
# The end of a transaction that has timed out is taken for a retry: it is aborted already.
INNOCENT_END = INNOCENT | {ErrorCode.INVALID_TXN_STATE}


class StartOver(Exception):
    """The teller must initialize its id again and read its position."""


class Desk(threading.Thread):
    """A client that reconnects until it is stopped."""

    def __init__(self, name: str, bootstrap: str, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.bootstrap = bootstrap
        self.random = random.Random(seed)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with Wire(self.bootstrap, timeout_s=30) as wire:
                    self.work(wire)
            except (OSError, ConnectionEnded, StartOver):
                self.stopping.wait(0.02)
            except BaseException as error:
                self.failure = error
                return

    def work(self, wire: Wire) -> None:
        raise NotImplementedError


class Teller(Desk):
    """Works through its orders; `acknowledged` is how many of them it knows to be committed."""

    def __init__(self, number: int, bootstrap: str, protocol: Protocol) -> None:
        super().__init__(f"teller-{number}", bootstrap, SEED + number)
        self.number = number
        self.protocol = protocol
        self.acknowledged = 0
        self.zombies_refused = 0

    def work(self, wire: Wire) -> None:
        find_coordinator(wire, self.name, GROUP_KEY)
        producer = TransactionalProducer(wire, self.protocol, self.name)
        producer.init(timeout_ms=TIMEOUT_MS)
        order = self.position(wire)
        assert order >= self.acknowledged, "a commit that was acknowledged is gone"
        while not self.stopping.is_set():
            self.enter(producer, order)
            if self.end(producer):
                order += 1
                self.acknowledged = order

    def position(self, wire: Wire) -> int:
        """The number of finished orders, after every earlier transaction has ended."""
        positions: list[int] = []

        def known() -> bool:
            found = committed_offset(wire, self.name, TOPIC)
            if found.error_code:
                assert found.error_code in INNOCENT | {ErrorCode.UNSTABLE_OFFSET_COMMIT}
                return False
            positions.append(max(found.committed_offset, 0))
            return True

        wait_for(known, "a stable position", deadline_s=SETTLE_S)
        return positions[-1]

    def enter(self, producer: TransactionalProducer, order: int) -> None:
        """Both sides of the order and the new position, unless the teller vanishes on the way."""
        amount = self.random.randrange(1, 1000)
        for side in (-amount, amount):
            self.maybe_vanish(producer)
            entry = json.dumps({"teller": self.number, "order": order, "amount": side}).encode()
            partition = self.random.randrange(PARTITIONS)
            check(producer.send(TOPIC, entry, partition=partition), INNOCENT)
        self.maybe_vanish(producer)
        if self.protocol.adds:
            check(producer.add_offsets(self.name), INNOCENT)
        check(producer.commit_offset(self.name, TOPIC, order + 1), INNOCENT)
        self.maybe_vanish(producer)

    def end(self, producer: TransactionalProducer) -> bool:
        """Whether the order is known to be done."""
        commit = self.random.random() < 0.8
        if self.random.random() < 0.1:
            self.hang_up(producer, commit=commit)
        code, after = producer.try_end(commit=commit)
        while code is ErrorCode.CONCURRENT_TRANSACTIONS:
            code, after = producer.try_end(commit=commit)
        check(code, INNOCENT_END)
        if after.producer_id >= 0:
            producer.become(after)
        return commit

    def hang_up(self, producer: TransactionalProducer, *, commit: bool) -> None:
        """Sends the end and does not wait for the answer."""
        identity = producer.producer
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )
        producer.wire.send(request, self.protocol.end)
        raise StartOver

    def maybe_vanish(self, producer: TransactionalProducer) -> None:
        """Crashes, and resumes as a zombie after its replacement has started."""
        if self.random.random() > 0.02:
            return
        with Wire(self.bootstrap, timeout_s=30) as other:
            heir = TransactionalProducer(other, self.protocol, self.name)
            heir.init(timeout_ms=TIMEOUT_MS)
            entry = json.dumps({"teller": self.number, "order": -1, "amount": 1}).encode()
            late = [
                producer.send(TOPIC, entry, partition=self.random.randrange(PARTITIONS)),
                producer.commit_offset(self.name, TOPIC, 10**6),
                producer.try_end(commit=True)[0],
            ]
            assert ErrorCode.NONE not in late, f"a zombie was served: {late}"
            self.zombies_refused += 1
        raise StartOver


class Ghosts(Desk):
    """Producers that open a transaction and never end it."""

    def work(self, wire: Wire) -> None:
        while not self.stopping.wait(0.3):
            protocol = self.random.choice((V1, V2))
            ghost = TransactionalProducer(wire, protocol)
            ghost.init(timeout_ms=500)
            entry = json.dumps({"teller": -1, "order": -1, "amount": 1}).encode()
            code = ghost.send(TOPIC, entry, partition=self.random.randrange(PARTITIONS))
            check(code, INNOCENT)


class Auditor(Desk):
    """Reads continuously; records it has read must never change."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__("auditor", bootstrap, SEED)
        self.readers = [CommittedReader(TOPIC, index) for index in range(PARTITIONS)]

    def work(self, wire: Wire) -> None:
        while not self.stopping.is_set():
            news = [reader.read(wire) for reader in self.readers]
            if not any(news):
                self.stopping.wait(0.02)


def check(code: ErrorCode, innocent: set[ErrorCode]) -> None:
    if code:
        assert code in innocent, code
        raise StartOver


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "bank", settings=SETTINGS) as process:
        yield process


def test_the_books_balance_whatever_breaks(broker: BrokerProcess) -> None:
    print(f"HEADRACE_BANK_SEED={SEED}")  # pytest shows it with a failure
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, TOPIC, PARTITIONS)
    tellers = [
        Teller(number, broker.bootstrap_servers, V2 if number % 2 else V1)
        for number in range(TELLERS)
    ]
    auditor = Auditor(broker.bootstrap_servers)
    everyone: list[Desk] = [*tellers, Ghosts("ghosts", broker.bootstrap_servers, SEED), auditor]
    for desk in everyone:
        desk.start()
    _break_the_broker(broker, everyone)
    wait_for(
        lambda: (
            any(desk.failure for desk in everyone)
            or sum(teller.acknowledged for teller in tellers) >= LEAST_ORDERS
        ),
        "some work gets done, also on a slow machine",
        deadline_s=SETTLE_S,
    )
    for desk in everyone:
        desk.stopping.set()
    for desk in everyone:
        desk.join(SETTLE_S)
        if desk.failure is not None:
            raise desk.failure
        assert not desk.is_alive(), f"{desk.name} does not come to an end"
    books = _settled_books(broker.bootstrap_servers)
    _check_books(broker.bootstrap_servers, tellers, books)
    for live, final in zip(auditor.readers, books, strict=True):
        assert live.values == final[: len(live.values)], "what was committed has changed"
    assert _read_by_client(broker.bootstrap_servers) == books
    refused = sum(teller.zombies_refused for teller in tellers)
    print(f"{sum(map(len, books)) // 2} orders, {refused} zombies refused")


def _break_the_broker(broker: BrokerProcess, desks: list[Desk]) -> None:
    chance = random.Random(SEED)
    give_up = time.monotonic() + LASTS_S
    while time.monotonic() < give_up and not any(desk.failure for desk in desks):
        # Time to work is not a condition to wait for.
        time.sleep(chance.uniform(0.2, KILL_EVERY_S))
        broker.kill()
        broker.start()


def _settled_books(bootstrap: str) -> list[list[bytes]]:
    """All committed records, after every transaction has ended."""
    readers = [CommittedReader(TOPIC, index) for index in range(PARTITIONS)]
    with Wire(bootstrap) as wire:

        def settled() -> bool:
            more = [reader.read(wire) for reader in readers]
            return not any(more) and all(reader.is_stable for reader in readers)

        wait_for(settled, "every transaction has ended", deadline_s=SETTLE_S)
    return [reader.values for reader in readers]


def _check_books(bootstrap: str, tellers: list[Teller], books: list[list[bytes]]) -> None:
    entries = [json.loads(value) for book in books for value in book]
    sides = Counter((entry["teller"], entry["order"]) for entry in entries)
    expected: Counter[tuple[int, int]] = Counter()
    for teller in tellers:
        with Wire(bootstrap) as wire:
            done = teller.position(wire)
        assert done >= teller.acknowledged, "a commit that was acknowledged is gone"
        expected.update({(teller.number, order): 2 for order in range(done)})
    torn = {key: (sides[key], expected[key]) for key in sides | expected}
    assert sides == expected, {key: seen for key, seen in torn.items() if seen[0] != seen[1]}
    assert sum(entry["amount"] for entry in entries) == 0
    by_order: Counter[tuple[int, int]] = Counter()
    for entry in entries:
        by_order[entry["teller"], entry["order"]] += entry["amount"]
    assert not any(by_order.values()), "the two sides of an order do not balance"


def _read_by_client(bootstrap: str) -> list[list[bytes]]:
    """The same books through librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    books: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()

    def at_end() -> bool:
        for message in consumer.consume(500, 1.0):
            if message.error():
                ended.add(message.partition())
            else:
                books[message.partition()].append(message.value())
        return len(ended) == PARTITIONS

    try:
        consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
        wait_for(at_end, "the end of every partition", deadline_s=SETTLE_S)
    finally:
        with suppress(RuntimeError):
            consumer.close()
    return books
