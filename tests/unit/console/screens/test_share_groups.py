"""Locks of share groups: what is shown, what is left out, what is not known."""

from headrace.client.admin.share_locks import ShareLock, ShareLocks, UnheldRecords
from headrace.client.admin.share_states import DeliveredRange, DeliveryState, ShareState
from headrace.client.results import TopicPartition
from headrace.console.screens.share_groups import RANGES_SHOWN, ShareRow, held_records

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
AVAILABLE, ARCHIVED = DeliveryState.AVAILABLE, DeliveryState.ARCHIVED
STORED = ShareState(0, (DeliveredRange(0, 4, AVAILABLE, 2), DeliveredRange(6, 6, ARCHIVED, 5)))


def lock(member: str, offset: int = 0, deliveries: int = 1) -> ShareLock:
    return ShareLock(offset, offset, member, deliveries, 700)


def test_the_locks_of_all_partitions_are_one_list() -> None:
    held = held_records(
        {
            FIRST: ShareLocks(2, (lock("ann"), lock("bob", 3)), 0, None),
            SECOND: ShareLocks(1, (lock("ann"),), 0, None),
        }
    )
    assert (held.records, held.members, held.omitted, held.unknown) == (3, 2, 0, 0)
    assert [(each.partition, at.first) for each, at in held.locks] == [(0, 0), (0, 3), (1, 0)]


def test_locks_beyond_the_limit_are_counted() -> None:
    many = tuple(lock("ann", offset) for offset in range(RANGES_SHOWN))
    held = held_records(
        {FIRST: ShareLocks(900, many, 5, None), SECOND: ShareLocks(2, (lock("bob"),) * 2, 1, None)}
    )
    assert (held.records, len(held.locks), held.omitted) == (902, RANGES_SHOWN, 5 + 2 + 1)


def test_without_an_answer_the_locks_are_unknown_and_not_zero() -> None:
    assert held_records({FIRST: None}).records is None
    held = held_records({FIRST: None, SECOND: ShareLocks(0, (), 0, None)})
    assert (held.records, held.unknown) == (0, 1)


def test_the_leader_knows_better_than_the_stored_state() -> None:
    """A locked record is stored as available: it would count as waiting for redelivery."""
    locks = ShareLocks(4, (lock("ann", deliveries=7),), 0, UnheldRecords(1, 0, 2, 3))
    row = ShareRow(FIRST, 0, 5, STORED, None, locks)
    assert (row.to_redeliver, row.acknowledged, row.archived) == (1, 0, 5)
    assert row.most_deliveries == 7


def test_the_stored_state_counts_if_the_leader_has_not_loaded_it() -> None:
    for locks in (None, ShareLocks(0, (), 0, None)):
        row = ShareRow(FIRST, 0, 5, STORED, None, locks)
        assert (row.to_redeliver, row.acknowledged, row.archived) == (5, 0, 1)
        assert row.most_deliveries == 5
    unknown = ShareRow(FIRST, 0, 5, None, "denied", None)
    assert (unknown.to_redeliver, unknown.archived, unknown.most_deliveries) == (None, None, None)
