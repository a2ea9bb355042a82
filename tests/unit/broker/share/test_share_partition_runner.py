"""Share partitions: requests whose responses arrive late."""

import asyncio
import gc
from typing import Any
from unittest.mock import create_autospec

from headrace.broker.share.share_partition_runner import (
    AcknowledgeOutcome,
    SharePartitionHost,
    SharePartitionRunner,
)
from headrace.broker.share.share_state_persister import ShareStateCoordinator
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.share_state.share_state_shard import ReadState
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.errors import ErrorCode
from headrace.replication.sole_leader import SoleLeader

KEY = SharePartitionKey("group", bytes(16), 0)


def test_an_error_after_the_stop_is_not_reported_as_lost() -> None:
    """The leader is replaced while it reads the stored state."""
    reported: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: reported.append(context))
        end_while_it_loads(loop.create_future())
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(main())
    assert reported == []


def end_while_it_loads(reading: "asyncio.Future[ReadState]") -> None:
    coordinator = create_autospec(ShareStateCoordinator, instance=True)
    coordinator.remote_leader_of.return_value = None
    coordinator.run.return_value = reading
    host = create_autospec(SharePartitionHost, instance=True, share_state=coordinator)
    live = SharePartitionRunner(host, KEY, create_autospec(SoleLeader, epoch=4), lambda _live: None)
    live.load()
    live.end(AcknowledgeOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    reading.set_exception(CoordinatorError(ErrorCode.FENCED_LEADER_EPOCH))
