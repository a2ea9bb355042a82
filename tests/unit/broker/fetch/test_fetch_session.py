"""Fetch sessions follow KIP-227."""

from random import Random

from headrace.broker.fetch.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPlan,
    FetchSessions,
    WantedPartition,
)
from headrace.protocol.errors import ErrorCode


def wanted(partition: int, offset: int = 0) -> WantedPartition:
    return WantedPartition("orders", bytes(16), partition, offset, 1 << 20)


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, 120.0, Random(7))


def begin(
    cache: FetchSessions,
    session_id: int,
    epoch: int,
    *partitions: WantedPartition,
    forget: tuple[int, ...] = (),
    ids: bool = False,
    now: float = 0.0,
) -> FetchPlan | ErrorCode:
    forgotten = [("orders", index) for index in forget]
    return cache.begin(session_id, epoch, partitions, forgotten, uses_topic_ids=ids, now=now)


def opened(cache: FetchSessions, *partitions: WantedPartition, now: float = 0.0) -> FetchPlan:
    plan = begin(cache, NO_SESSION, INITIAL_EPOCH, *partitions, now=now)
    assert isinstance(plan, FetchPlan)
    return plan


def test_a_client_without_sessions_gets_none() -> None:
    plan = begin(sessions(), NO_SESSION, FINAL_EPOCH, wanted(0))
    assert isinstance(plan, FetchPlan)
    assert plan.session_id == NO_SESSION
    assert not plan.incremental


def test_a_session_remembers_its_partitions() -> None:
    cache = sessions()
    plan = opened(cache, wanted(0), wanted(1))
    again = begin(cache, plan.session_id, 1, wanted(1, offset=5), forget=(0,))
    assert isinstance(again, FetchPlan)
    assert again.incremental
    assert [(each.partition, each.fetch_offset) for each in again.wanted] == [(1, 5)]


def test_wrong_ids_and_epochs_are_rejected() -> None:
    cache = sessions()
    plan = opened(cache, wanted(0))
    assert begin(cache, plan.session_id + 1, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert begin(cache, plan.session_id, 2) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    mixed = begin(cache, plan.session_id, 1, ids=True)
    assert mixed == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_forgetting_everything_ends_the_session() -> None:
    cache = sessions()
    plan = opened(cache, wanted(0))
    ended = begin(cache, plan.session_id, 1, forget=(0,))
    assert isinstance(ended, FetchPlan)
    assert ended.session_id == NO_SESSION
    assert len(cache) == 0


def test_a_full_cache_gives_no_session_until_the_oldest_is_idle() -> None:
    cache = sessions(slots=1)
    assert opened(cache, wanted(0), now=0.0).session_id != NO_SESSION
    assert opened(cache, wanted(0), now=60.0).session_id == NO_SESSION
    assert opened(cache, wanted(0), now=121.0).session_id != NO_SESSION
    assert len(cache) == 1


def test_an_incremental_response_has_only_changed_partitions() -> None:
    plan = opened(sessions(), wanted(0))
    session = plan.session
    assert session is not None

    def news(*, error: bool = False, records: bool = False, high_watermark: int = 3) -> bool:
        return session.update_response_data(
            ("orders", 0),
            error=error,
            has_records=records,
            high_watermark=high_watermark,
            log_start=0,
            diverged=False,
        )

    assert news()
    assert not news()
    assert news(high_watermark=4)
    assert news(records=True, high_watermark=4)
    assert news(error=True, high_watermark=-1)
    assert news(high_watermark=4), "recovery from an error is news"
    assert not news(high_watermark=4)


def test_a_partition_with_records_moves_to_the_end_of_the_order() -> None:
    plan = opened(sessions(), wanted(0), wanted(1))
    assert plan.session is not None
    plan.session.update_response_data(
        ("orders", 0), error=False, has_records=True, high_watermark=1, log_start=0, diverged=False
    )
    assert [key[1] for key in plan.session.partitions] == [1, 0]
