"""A broker that was fenced while it was suspended is not believed."""

import asyncio
from random import Random

import pytest

from headrace.cli.cluster.status import take_overview
from headrace.client.admin import cluster_view
from headrace.client.admin.brokers import BrokerInfo, ClusterInfo
from headrace.client.admin.cluster_view import agreed_controller, current_view, most_recent
from headrace.client.client import ClusterClient, ToBroker
from headrace.clock import SystemClock
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from headrace.protocol.messages.metadata import MetadataResponse
from headrace.protocol.struct import Struct
from support.wire.fake_broker import FakeBroker

TIMEOUT_S = 5.0


def view(controller: int, *live: int, fenced: tuple[int, ...] = ()) -> ClusterInfo:
    brokers = [BrokerInfo(id_, "h", 1) for id_ in live]
    brokers += [BrokerInfo(id_, "h", 1, fenced=True) for id_ in fenced]
    return ClusterInfo("c", controller, tuple(brokers))


def test_most_brokers_agree_on_the_controller_and_it_has_answered() -> None:
    views = {1: view(1, 1, 2, 3), 2: view(2, 2, 3, fenced=(1,))}
    assert agreed_controller(views, [1, 2, 3]) is None
    views[3] = view(2, 2, 3, fenced=(1,))
    assert agreed_controller(views, [1, 2, 3]) == 2
    del views[2]
    assert agreed_controller(views, [1, 2, 3]) is None


def test_a_fenced_broker_is_not_believed_even_if_it_claims_to_be_the_controller() -> None:
    assert most_recent({1: view(1, 1, 2), 2: view(2, 2, fenced=(1,))}) == 2
    assert most_recent({1: view(3, 1, 2, 3), 2: view(2, 2)}) == 2


def test_the_controller_is_believed_before_the_others() -> None:
    assert most_recent({1: view(2, 1, 2), 2: view(2, 1, 2)}) == 2
    assert most_recent({1: view(3, 1, 2, 3), 2: view(3, 1, 2, 3)}) in {1, 2}


def answer_as(
    broker: FakeBroker, controller: int, isr: list[int], live: list[FakeBroker], every: list[int]
) -> None:
    """The broker describes a cluster with one partition."""

    def metadata(request: Struct, version: int) -> MetadataResponse:
        first, *others = live
        layout = first.layout({"orders": [controller]}, *others)
        layout.controller_id = controller
        (partition,) = layout.topics[0].partitions
        partition.replica_nodes, partition.isr_nodes = every, isr
        return layout

    broker.handlers[ApiKey.METADATA] = metadata
    broker.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda request, version: DescribeClusterResponse(
        controller_id=controller,
        brokers=[
            DescribeClusterBroker(broker_id=each.node_id, host="127.0.0.1", port=each.port)
            for each in live
        ],
    )


def test_the_view_of_a_resumed_broker_does_not_count() -> None:
    """Only the resumed broker is known: its old view would show every replica in sync."""

    async def main() -> None:
        async with (
            FakeBroker(1) as resumed,
            FakeBroker(2) as controller,
            ClusterClient(
                resumed.address, client_id="test", clock=SystemClock(), random=Random(1)
            ) as client,
        ):
            answer_as(resumed, 1, [1, 2], [resumed, controller], [1, 2])
            answer_as(controller, 2, [2], [controller], [1, 2])
            overview = await take_overview(client, timeout_s=TIMEOUT_S)
            assert [each.partition for each in overview.under_replicated] == [0]
            assert overview.controller == 2
            assert client.metadata.controller_id == 2  # where elections are sent

    asyncio.run(main())


def test_a_controller_that_stops_is_not_the_end() -> None:
    async def main() -> None:
        async with (
            FakeBroker(1) as first,
            FakeBroker(2) as controller,
            ClusterClient(
                first.address, client_id="test", clock=SystemClock(), random=Random(1)
            ) as client,
        ):
            for each in (first, controller):
                answer_as(each, 2, [1], [first, controller], [1, 2])
            controller.dropped.append(ApiKey.METADATA)
            overview = await take_overview(client, timeout_s=TIMEOUT_S)
            assert [each.partition for each in overview.under_replicated] == [0]
            assert controller.dropped == []

    asyncio.run(main())


def test_a_broker_that_hangs_does_not_delay_an_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_view, "VIEW_S", 60.0)

    async def main() -> None:
        async with (
            FakeBroker(1) as first,
            FakeBroker(2) as second,
            FakeBroker(3) as hanging,
            ClusterClient(
                first.address, client_id="test", clock=SystemClock(), random=Random(1)
            ) as client,
        ):
            live = [first, second, hanging]
            for each in live:
                answer_as(each, 2, [1, 2, 3], live, [1, 2, 3])
            hanging.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda request, version: None
            async with asyncio.timeout(TIMEOUT_S):
                found = await current_view(client, timeout_s=60.0)
            assert found.source == ToBroker(2)

    asyncio.run(main())
