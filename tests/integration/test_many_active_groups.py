"""One coordinator serves thousands of groups at once and still answers other clients."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from headrace.client.network.connection import Address, ClientConnection, connect
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from support.brokers.processes import BrokerProcess, Spawn
from support.wire.connection import Wire
from support.wire.groups import wait_for_coordinator
from support.wire.topics import create_topic

GROUPS = 2_000
CONNECTIONS = 20
ROUNDS = 3
TIMEOUT_S = 60.0
MAX_STALL_S = 5.0
"""Of somebody else's request; the machine may be busy with other tests."""
MAX_GROWTH_BYTES = 16 << 20
MAX_RSS_BYTES = 192 << 20
COMMIT_VERSION = 9
API_VERSIONS_VERSION = 4


class Member:
    """The only member of its group."""

    def __init__(self, number: int, connection: ClientConnection) -> None:
        self.group = f"group-{number}"
        self.epoch = 0
        self._connection = connection

    async def join(self) -> None:
        answer = await self._heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.group,
                rebalance_timeout_ms=300_000,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
        )
        self.epoch = answer.member_epoch

    async def live(self) -> None:
        """A heartbeat and a commit, at once."""
        beat = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.group, member_epoch=self.epoch
        )
        await asyncio.gather(self._heartbeat(beat), self._commit())

    async def _heartbeat(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        answer = await self._connection.request(
            request, ConsumerGroupHeartbeatResponse, version=1, timeout_s=TIMEOUT_S
        )
        assert answer.error_code == 0, (answer.error_code, answer.error_message)
        return answer

    async def _commit(self) -> None:
        partition = OffsetCommitRequestPartition(committed_offset=self.epoch)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.group,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        answer = await self._connection.request(
            request, OffsetCommitResponse, version=COMMIT_VERSION, timeout_s=TIMEOUT_S
        )
        assert answer.topics[0].partitions[0].error_code == 0

    async def committed(self) -> int:
        wanted = OffsetFetchRequestGroup(group_id=self.group, topics=None)
        answer = await self._connection.request(
            OffsetFetchRequest(groups=[wanted]),
            OffsetFetchResponse,
            version=COMMIT_VERSION,
            timeout_s=TIMEOUT_S,
        )
        return answer.groups[0].topics[0].partitions[0].committed_offset


async def everybody(
    members: Sequence[Member], act: Callable[[Member], Awaitable[object]]
) -> list[object]:
    return list(await asyncio.gather(*(act(each) for each in members)))


async def longest_stall(connection: ClientConnection, done: asyncio.Event) -> float:
    """The longest response time of another client while the load runs."""
    longest = 0.0
    while not done.is_set():
        began = time.monotonic()
        await connection.request(
            ApiVersionsRequest(),
            ApiVersionsResponse,
            version=API_VERSIONS_VERSION,
            timeout_s=TIMEOUT_S,
        )
        longest = max(longest, time.monotonic() - began)
        await asyncio.sleep(0.01)  # between two checks
    return longest


def test_two_thousand_active_groups_do_not_delay_other_clients(spawn: Spawn) -> None:
    broker = spawn({"offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0})
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "t", 1)
        wait_for_coordinator(wire, "group-0")
    asyncio.run(_live(broker))


async def _live(broker: BrokerProcess) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")

    async def opened() -> ClientConnection:
        return await connect(Address(host, int(port)), client_id="load", timeout_s=TIMEOUT_S)

    connections = await asyncio.gather(*(opened() for _ in range(CONNECTIONS)))
    bystander = await opened()
    try:
        await _live_over(broker, connections, bystander)
    finally:
        for each in (*connections, bystander):
            await each.close()


async def _live_over(
    broker: BrokerProcess, connections: Sequence[ClientConnection], bystander: ClientConnection
) -> None:
    members = [Member(at, connections[at % CONNECTIONS]) for at in range(GROUPS)]
    done = asyncio.Event()
    watching = asyncio.create_task(longest_stall(bystander, done))
    await everybody(members, Member.join)
    sizes = []
    for _ in range(ROUNDS):
        await everybody(members, Member.live)
        sizes.append(broker.rss_bytes())
    done.set()
    stall_s = await watching
    assert await everybody(members, Member.committed) == [each.epoch for each in members]
    print(f"longest stall {stall_s:.3f} s, RSS {[size >> 20 for size in sizes]} MB")
    assert stall_s < MAX_STALL_S
    assert sizes[-1] - sizes[0] < MAX_GROWTH_BYTES, "rounds leave nothing behind"
    assert sizes[-1] < MAX_RSS_BYTES
