"""ElectLeaders (key 43), versions 0-2: elects preferred or unclean leaders.

* v1: the election type; v0 elects preferred leaders.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from headrace.broker.metadata.change_log import decide_logged
from headrace.broker.network.dispatch import Context
from headrace.controller.election_triggers import ElectionResult, elect_leaders
from headrace.controller.leader_election import Election
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def _reject_election_type(request: ElectLeadersRequest) -> ElectLeadersResponse:
    code, message = ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    ElectLeadersPartitionResult(
                        partition_id=index, error_code=code, error_message=message
                    )
                    for index in asked.partitions
                ],
            )
            for asked in request.topic_partitions or ()
        ],
    )


async def handle(
    broker: Broker, context: Context, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    election = ELECTIONS.get(request.election_type)
    if election is None:
        return _reject_election_type(request)
    asked = request.topic_partitions
    wanted = (
        None
        if asked is None
        else [(each.topic, index) for each in asked for index in each.partitions]
    )
    results = await decide_logged(
        broker.metadata,
        context,
        ApiKey.ELECT_LEADERS,
        lambda controller: elect_leaders(controller.image, controller.rules, election, wanted),
    )
    if asked is None:
        by_topic = groupby(results, key=lambda each: each.topic)
        answers = [_topic_result(topic, list(group)) for topic, group in by_topic]
    else:
        found = {(each.topic, each.index): each for each in results}
        answers = [
            _topic_result(each.topic, [found[each.topic, index] for index in each.partitions])
            for each in asked
        ]
    return ElectLeadersResponse(replica_election_results=answers)


def _topic_result(topic: str, elections: Sequence[ElectionResult]) -> ReplicaElectionResult:
    return ReplicaElectionResult(
        topic=topic,
        partition_result=[
            ElectLeadersPartitionResult(
                partition_id=each.index,
                error_code=each.error.code,
                error_message=each.error.message,
            )
            for each in elections
        ],
    )
