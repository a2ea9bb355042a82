"""The records of `__transaction_state` are Kafka's, byte for byte."""

from headrace.coordinator.transaction.records import FORMAT, TransactionLogKey, TransactionLogValue
from headrace.coordinator.transaction.transaction import Transaction, TransactionState, from_record


def test_an_empty_id_as_kafka_writes_it() -> None:
    # Version 1 is flexible; a tag that has its default is left out.
    transaction = Transaction("ab", 7, 3, 60_000, 5, previous_producer_id=7)
    key, value = FORMAT.encode(transaction.to_change())
    assert key.hex() == "000000026162"
    assert value is not None
    assert value.hex() == (
        "0001"
        "0000000000000007"  # producer id
        "0003"  # epoch
        "0000ea60"  # timeout
        "00"  # Empty
        "00"  # no partitions: null
        "0000000000000005"  # last update
        "ffffffffffffffff"  # start
        "01"
        "00"
        "08"
        "0000000000000007"  # one tag: the previous producer id
    )


def test_an_open_transaction_as_kafka_writes_it() -> None:
    transaction = Transaction(
        "ab",
        7,
        3,
        60_000,
        5,
        TransactionState.ONGOING,
        frozenset({("t", 1), ("t", 0)}),
        4,
        7,
        -1,
        2,
    )
    _, value = FORMAT.encode(transaction.to_change())
    assert value is not None
    assert value.hex() == (
        "0001000000000000000700030000ea6001"
        "02027403000000000000000100"
        "00000000000000050000000000000004"
        "020008000000000000000702020002"
    )  # fmt: skip


def test_records_of_version_0_are_read() -> None:
    value = TransactionLogValue(
        producer_id=9,
        producer_epoch=1,
        transaction_timeout_ms=10,
        transaction_status=4,
        transaction_partitions=[],
        transaction_last_update_timestamp_ms=3,
        transaction_start_timestamp_ms=2,
    )
    change = FORMAT.decode(
        b"\0\0" + TransactionLogKey(transactional_id="x").encode(0), b"\0\0" + value.encode(0)
    )
    assert change is not None
    assert isinstance(change.value, TransactionLogValue)
    read = from_record("x", change.value)
    assert (read.producer_id, read.epoch, read.state) == (9, 1, TransactionState.COMPLETE_COMMIT)
    assert (read.previous_producer_id, read.next_producer_id, read.client_version) == (-1, -1, 0)
