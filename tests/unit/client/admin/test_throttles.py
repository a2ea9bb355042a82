"""A dead broker gets no replication limit, and the others do."""

import asyncio
from random import Random

from headrace.client.admin.configs import Resource, ResourceKind
from headrace.client.admin.throttles import UNREACHABLE, set_throttle
from headrace.client.client import ClusterClient
from headrace.client.network.retry import Backoff
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.protocol.struct import Struct
from support.wire.fake_broker import FakeBroker


def accept(request: Struct, version: int) -> IncrementalAlterConfigsResponse:
    assert isinstance(request, IncrementalAlterConfigsRequest)
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsAlterConfigsResourceResponse(
                resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        ]
    )


def test_a_dead_source_broker_does_not_keep_the_others_from_their_limit() -> None:
    async def main() -> None:
        async with FakeBroker(1) as living, FakeBroker(2) as dead:
            pass
        async with living:
            living.handlers[ApiKey.METADATA] = lambda request, version: living.layout({}, dead)
            living.handlers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = accept
            async with ClusterClient(
                living.address,
                client_id="test",
                clock=SystemClock(),
                random=Random(1),
                backoff=Backoff(initial_s=0.01, max_s=0.02),
            ) as client:
                moves = {TopicPartition("orders", 0): ([2], [1])}
                done = await set_throttle(client, moves, 1_000_000, timeout_s=0.3)
        refused = done.pop(Resource(ResourceKind.BROKER, "2"))
        assert isinstance(refused, Refusal)
        assert refused.code is UNREACHABLE
        assert done == {
            Resource(ResourceKind.BROKER, "1"): None,
            Resource(ResourceKind.TOPIC, "orders"): None,
        }

    asyncio.run(main())
