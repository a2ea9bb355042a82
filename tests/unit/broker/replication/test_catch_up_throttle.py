"""A lagging follower receives its missing records slice by slice and delays no other follower."""

from headrace.broker.replication.fetch_session_at_leader import CATCH_UP_BYTES
from headrace.broker.replication.replication_slices import BATCH_COST, SLICE_COST
from headrace.protocol.errors import ErrorCode
from headrace.records.batch_header import headers
from support.brokers.follower_session import FOLLOWER, LIFE, ME, RATE, Led, append

LARGE = b"x" * 100_000
OTHER = 3
LIVE = {ME: 10, FOLLOWER: LIFE, OTHER: 30}


def behind(partitions: int = 2, batches: int = 8) -> Led:
    """The follower is in sync nowhere, and has nothing of any partition."""
    led = Led(0)
    led.leaders = [led.lead(index, isr=(ME,)) for index in range(partitions)]
    for leader in led.leaders:
        for _ in range(batches):
            append(leader, [LARGE])
    led.fetch(*((index, 0) for index in range(partitions)))
    return led


def test_one_slice_is_sent_at_a_time_and_the_next_waits() -> None:
    led = behind()
    assert led.is_ready
    (sent,) = led.answer().values()
    assert 0 < len(sent.records or b"") <= CATCH_UP_BYTES
    assert not led.is_ready
    assert not led.answer()
    wait_s = led.session.catch_up_wait_s(led.now)
    assert wait_s is not None
    assert wait_s > len(sent.records or b"") / RATE
    led.now += wait_s
    assert led.is_ready
    assert list(led.answer()) == [1 - sent.partition_index]  # in turn


def test_lagging_partitions_are_served_in_rotation() -> None:
    led = behind(partitions=3)
    taken = [0, 0, 0]
    for _ in range(6):
        (sent,) = led.answer().values()
        index = sent.partition_index
        taken[index] += 1
        wait_s = led.session.catch_up_wait_s(led.now)
        assert wait_s is not None
        led.now += wait_s
        led.fetch((index, 2 * taken[index]))
    assert taken == [2, 2, 2]


def test_a_batch_larger_than_a_slice_is_sent_alone() -> None:
    led = behind(partitions=1, batches=0)
    append(led.leaders[0], [LARGE * 9])
    append(led.leaders[0])
    (sent,) = led.answer().values()
    assert len(sent.records or b"") > 9 * len(LARGE)
    led.fetch((0, 1))
    assert not led.is_ready


def test_a_slice_has_a_limited_number_of_batches() -> None:
    led = behind(partitions=1, batches=0)
    for _ in range(300):
        append(led.leaders[0], [b"x"])
    sent = led.answer()[0].records or b""
    assert 64 < len(list(headers(sent))) < SLICE_COST // BATCH_COST


def test_in_sync_partitions_do_not_wait_for_those_that_lag() -> None:
    led = behind(partitions=1)
    in_sync = led.lead(1)
    led.answer()
    led.fetch((1, 0))
    assert set(led.answer()) == {1}  # its watermark
    append(in_sync)
    assert led.is_ready
    assert set(led.answer()) == {1}


def test_new_appends_shorten_the_wait() -> None:
    led = behind(partitions=1)
    (sent,) = led.answer().values()
    led.fetch((0, len(sent.records or b"") // len(LARGE)))
    assert not led.is_ready
    before_s = led.session.catch_up_wait_s(led.now)
    append(led.leaders[0], [LARGE])
    after_s = led.session.catch_up_wait_s(led.now)
    assert before_s is not None
    assert after_s is not None
    assert before_s - after_s >= 2 * len(LARGE) / RATE


def test_a_follower_about_to_join_the_isr_is_not_delayed() -> None:
    led = Led(0)
    leader = led.lead(0, isr=(ME, OTHER))
    for _ in range(8):
        append(leader, [LARGE])  # the other one in sync does not have them: nothing is committed
    led.fetch((0, 0))
    led.answer()
    led.fetch((0, 0))
    assert not led.is_ready
    leader.propose_joining({FOLLOWER}, LIVE)
    assert leader.awaits(FOLLOWER)
    assert led.is_ready
    sent = led.answer()[0].records
    assert sent is not None
    assert len(sent) > CATCH_UP_BYTES


def test_a_delayed_partition_still_reports_that_its_leader_is_gone() -> None:
    led = behind()
    (sent,) = led.answer().values()
    assert not led.is_ready
    deferred = 1 - sent.partition_index
    led.table.by_name["t"].put(deferred, None)
    led.leaders[deferred].close()
    assert led.is_ready
    assert led.answer()[deferred].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
