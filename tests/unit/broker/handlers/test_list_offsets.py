"""A new leader never returns an end offset below one that its predecessor returned (KIP-207)."""

import pytest

from headrace.broker.handlers.list_offsets import LATEST, list_offsets
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from support.brokers.follower_session import FOLLOWER, LIFE, Led, append

LATER = 1 << 60
DEBUGGER = -2  # Kafka's debugging consumer


@pytest.mark.parametrize(
    ("version", "refusal"),
    [(4, ErrorCode.LEADER_NOT_AVAILABLE), (11, ErrorCode.OFFSET_NOT_AVAILABLE)],
)
def test_the_end_offset_is_unavailable_until_the_high_watermark_is_known(
    version: int, refusal: ErrorCode
) -> None:
    led = Led(1)
    end = append(led.leaders[0])
    new = led.lead(0, epoch=1)  # its log has a record that may have been committed

    def ask(timestamp: int, replica_id: int = -1) -> tuple[int, int]:
        wanted = ListOffsetsPartition(
            partition_index=0, timestamp=timestamp, current_leader_epoch=-1
        )
        request = ListOffsetsRequest(
            replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=[wanted])]
        )
        (found,) = list_offsets(led.table, version, request).topics[0].partitions
        return found.error_code, found.offset

    assert new.log.log_end_offset == end
    assert ask(LATEST)[0] == ask(LATER)[0] == refusal
    assert ask(LATEST, replica_id=FOLLOWER) == (ErrorCode.NONE, end)
    assert ask(LATEST, replica_id=DEBUGGER) == (ErrorCode.NONE, end)
    new.fetched(FOLLOWER, LIFE, end, 0, now=1.0)
    assert ask(LATEST) == (ErrorCode.NONE, end)
    assert ask(LATER) == (ErrorCode.NONE, -1)
