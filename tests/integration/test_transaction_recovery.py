"""Transactions over restarts, crashes, timeouts and markers that cannot be written at once."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.broker.transactions import txn_marker_sender
from headrace.protocol.errors import ErrorCode
from headrace.storage.errors import DiskFull
from headrace.testing import Broker
from support.waiting import wait_for
from support.wire.batches import fetch, fetch_request
from support.wire.connection import Wire
from support.wire.topics import create_topic
from support.wire.transactional_producer import (
    GROUP_KEY,
    READ_COMMITTED,
    V1,
    V2,
    Protocol,
    TransactionalProducer,
    committed_offset,
    find_coordinator,
    read_committed,
)

BOTH = pytest.mark.parametrize("protocol", [V1, V2])
TOPIC = "ledger"
SMALL = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}


@contextmanager
def running(settings: dict[str, str] | None = None) -> Iterator[tuple[Broker, Wire]]:
    broker = Broker(settings={**SMALL, **(settings or {})})
    with broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, TOPIC, 2)
        yield broker, wire


@pytest.fixture
def no_markers(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No partition takes a marker until this is undone."""

    def refuse(*args: object, **options: object) -> None:
        raise DiskFull("no space for a marker")

    monkeypatch.setattr(txn_marker_sender, "append_marker", refuse)
    return monkeypatch


@BOTH
@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_an_open_transaction_continues_after_a_restart(protocol: Protocol, ending: str) -> None:
    with running() as (broker, wire):
        producer = TransactionalProducer(wire, protocol).init()
        assert not producer.send(TOPIC, b"before")
        getattr(broker, ending)()
        broker.start()
        with Wire(broker.bootstrap_servers) as again:
            producer.wire = again
            find_coordinator(again, producer.transactional_id)

            def sent() -> bool:
                code = producer.send(TOPIC, b"after", partition=1)
                loading = code in (
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                )
                assert loading or not code, code
                return not code

            wait_for(sent, "the coordinator is loaded")
            assert read_committed(again, TOPIC) == []
            producer.commit()
            assert read_committed(again, TOPIC) == [b"before"]
            assert read_committed(again, TOPIC, partition=1) == [b"after"]


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_completes_after_a_crash(
    no_markers: pytest.MonkeyPatch, protocol: Protocol, commit: bool
) -> None:
    with running() as (broker, wire):
        find_coordinator(wire, "g", GROUP_KEY)
        producer = TransactionalProducer(wire, protocol).init()
        assert not producer.send(TOPIC, b"a")
        if protocol.adds:
            assert not producer.add_offsets("g")
        assert not producer.commit_offset("g", TOPIC, 7)
        code, _ = producer.try_end(commit=commit)
        assert not code
        assert producer.describe().transaction_state.startswith("Prepare")
        assert read_committed(wire, TOPIC) == []
        broker.kill()
        no_markers.undo()
        broker.start()
        with Wire(broker.bootstrap_servers) as again:
            wait_for(
                lambda: (
                    fetch(
                        again, fetch_request(TOPIC, isolation_level=READ_COMMITTED)
                    ).last_stable_offset
                    == 2
                ),
                "the marker is written",
            )
            assert read_committed(again, TOPIC) == ([b"a"] if commit else [])
            find_coordinator(again, "g", GROUP_KEY)
            wait_for(
                lambda: not committed_offset(again, "g", TOPIC).error_code, "offsets are decided"
            )
            expected = 7 if commit else -1
            assert committed_offset(again, "g", TOPIC).committed_offset == expected


@BOTH
def test_failed_marker_writes_are_retried(
    no_markers: pytest.MonkeyPatch, protocol: Protocol
) -> None:
    with running() as (_, wire):
        producer = TransactionalProducer(wire, protocol).init()
        assert not producer.send(TOPIC, b"a")
        assert not producer.try_end(commit=True)[0]
        # No producer can begin another transaction before this one has ended.
        assert producer.try_end(commit=True)[0] is ErrorCode.CONCURRENT_TRANSACTIONS
        assert producer.try_init() is ErrorCode.CONCURRENT_TRANSACTIONS
        no_markers.undo()
        wait_for(lambda: producer.describe().transaction_state == "CompleteCommit", "the markers")
        assert read_committed(wire, TOPIC) == [b"a"]


@BOTH
def test_a_producer_that_exceeds_its_timeout_is_aborted_and_fenced(protocol: Protocol) -> None:
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "20"}
    with running(often) as (_, wire):
        producer = TransactionalProducer(wire, protocol).init(timeout_ms=50)
        assert not producer.send(TOPIC, b"a")
        wait_for(lambda: producer.describe().transaction_state == "CompleteAbort", "the abort")
        assert read_committed(wire, TOPIC) == []
        assert producer.describe().producer_epoch == producer.producer.epoch + 1
        assert producer.send_only(TOPIC, b"b") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert producer.add((TOPIC, 0)) is ErrorCode.PRODUCER_FENCED
        code, _ = producer.try_end(commit=True)
        # Version 2 treats it as a retry, one epoch behind: an aborted transaction is not committed.
        assert code is (
            ErrorCode.PRODUCER_FENCED if protocol is V1 else ErrorCode.INVALID_TXN_STATE
        )


def test_idle_transactional_ids_expire() -> None:
    soon = {
        "transactional.id.expiration.ms": "1",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "20",
    }
    with running(soon) as (_, wire):
        producer = TransactionalProducer(wire).init()
        wait_for(
            lambda: producer.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            "the id is forgotten",
        )
        assert producer.send(TOPIC, b"a") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        producer.init()


@BOTH
def test_transactions_work_with_a_flush_before_every_response(protocol: Protocol) -> None:
    with running({"log.flush.interval.messages": "1"}) as (broker, wire):
        find_coordinator(wire, "g", GROUP_KEY)
        producer = TransactionalProducer(wire, protocol).init()
        for number in range(3):
            assert not producer.send(TOPIC, b"%d" % number, partition=0)
            assert not producer.send(TOPIC, b"%d" % number, partition=1)
            if protocol.adds:
                assert not producer.add_offsets("g")
            assert not producer.commit_offset("g", TOPIC, number)
            producer.end(commit=number != 1)
            wait_for(
                lambda: producer.describe().transaction_state.startswith("Complete"), "the end"
            )
        assert read_committed(wire, TOPIC) == [b"0", b"2"]
        assert read_committed(wire, TOPIC, partition=1) == [b"0", b"2"]
        assert committed_offset(wire, "g", TOPIC).committed_offset == 2
        broker.kill()
        broker.start()
        with Wire(broker.bootstrap_servers) as again:
            assert read_committed(again, TOPIC) == [b"0", b"2"]
