"""DeleteRecords: what the leader refuses, and when the response waits for followers."""

import asyncio
from collections.abc import Callable

import pytest

from headrace.broker.partitions.delete_records import (
    NO_LOW_WATERMARK,
    UP_TO_HIGH_WATERMARK,
    DelayedDeleteRecords,
    DeletedRecords,
    delete_records,
)
from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import BrokerRegistration
from headrace.protocol.errors import ErrorCode
from support.brokers.follower_session import FOLLOWER, LIFE, ME, Led, append

LONG_S = 60.0


def committed_record() -> Led:
    led = Led(1)
    end = append(led.leaders[0])
    led.leaders[0].fetched(FOLLOWER, LIFE, end, 0, now=1.0)
    assert led.leaders[0].high_watermark == end == 1
    return led


def image_of(*live: int) -> Callable[[], MetadataImage]:
    brokers = {id_: BrokerRegistration(id_, 1, ()) for id_ in live}
    return lambda: MetadataImage(brokers=brokers)


def test_records_above_the_high_watermark_and_unknown_partitions_are_refused() -> None:
    led = committed_record()
    assert delete_records(led.table, "t", 0, 2).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records(led.table, "t", 0, -2).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records(led.table, "t", 9, 0).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    internal = delete_records(led.table, "__consumer_offsets", 0, 0)
    assert internal == DeletedRecords(NO_LOW_WATERMARK, ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert led.leaders[0].log.log_start_offset == 0


def test_the_response_waits_for_live_followers() -> None:
    asyncio.run(_waits_for_live_followers())


async def _waits_for_live_followers() -> None:
    led = committed_record()
    leader = led.leaders[0]
    deleted = delete_records(led.table, "t", 0, UP_TO_HIGH_WATERMARK)
    assert deleted.is_pending is False  # of the leader's own log nothing is left
    delayed = DelayedDeleteRecords(
        asyncio.get_running_loop(), image_of(ME, FOLLOWER), [deleted], LONG_S, lambda: "done"
    )
    assert not delayed.future.done()
    assert deleted.is_pending
    leader.fetched(FOLLOWER, LIFE, 1, 1, now=2.0)  # its log starts at 1 now
    assert await asyncio.wait_for(delayed.future, 5) == "done"
    assert (deleted.low_watermark, deleted.error) == (1, ErrorCode.NONE)


def test_a_dead_follower_is_not_waited_for() -> None:
    asyncio.run(_ignores_dead_followers())


async def _ignores_dead_followers() -> None:
    deleted = delete_records(committed_record().table, "t", 0, 1)
    delayed = DelayedDeleteRecords(
        asyncio.get_running_loop(), image_of(ME), [deleted], LONG_S, lambda: "done"
    )
    assert delayed.future.done()
    assert deleted.low_watermark == 1


@pytest.mark.parametrize("closes", [False, True])
def test_a_timeout_and_a_lost_leader_are_errors_of_the_partition(closes: bool) -> None:
    asyncio.run(_fails_the_partition(closes))


async def _fails_the_partition(closes: bool) -> None:
    led = committed_record()
    deleted = delete_records(led.table, "t", 0, 1)
    if closes:
        led.leaders[0].close()
    delayed = DelayedDeleteRecords(
        asyncio.get_running_loop(), image_of(ME, FOLLOWER), [deleted], 0.0, lambda: "done"
    )
    await asyncio.wait_for(delayed.future, 5)
    expected = ErrorCode.NOT_LEADER_OR_FOLLOWER if closes else ErrorCode.REQUEST_TIMED_OUT
    assert deleted.error is expected
