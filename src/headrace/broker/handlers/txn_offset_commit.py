"""TxnOffsetCommit (key 28), versions 0-5: offsets that count when a transaction commits.

v2 adds leader epochs, v3 says which member commits, so that a zombie of the group is refused;
from v5 on the commit itself adds the group to the transaction (KIP-890).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.broker.dispatch import Context
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_THAT_KNOWS_LOADING: Final = 2


def handle(
    broker: Broker, context: Context, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
    version = context.version
    return broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.offsets.commit_in_transaction(version, request, now_ms),
        lambda error: _refused(version, request, error),
    )


def _refused(
    version: int, request: TxnOffsetCommitRequest, error: CoordinatorError
) -> TxnOffsetCommitResponse:
    code = error.code
    if (
        code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        and version < FIRST_VERSION_THAT_KNOWS_LOADING
    ):
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # old producers do not retry the other
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
