"""Brokers that replicate over real sockets, with metadata made by hand.

There is no election and no store: the test chooses the leader. Requests of leaders to the
controller succeed, unless the test delays them (`hold`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.broker.membership.peers import Peers
from headrace.broker.node import Broker
from headrace.client.errors import ConnectionFailed
from headrace.client.network.connection import Address, ClientConnection, connect
from headrace.cluster.image import MetadataImage
from headrace.cluster.image_diff import records_between
from headrace.cluster.metadata_records import (
    BrokerRegistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    MetadataRecord,
    PartitionChanged,
    TopicCreated,
)
from headrace.cluster.resources import topic_resource
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.topology import Partition
from headrace.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.record import Record, build_batch

DEADLINE_S = 20.0
PAUSE_S = 0.005
TOPIC_ID = b"topic-id-of-16-b"
NOW_MS = 1_700_000_000_000


class HandmadeCluster:
    """Brokers 1, 2, 3, ...; all partitions of topic `t`."""

    def __init__(self, data: Path, settings: Mapping[str, str], *, racks: bool) -> None:
        self._data = data
        self._settings = settings
        self._racks = racks
        self.brokers: dict[int, Broker] = {}
        self.addresses: dict[int, Address] = {}
        self.hold = False
        self.asked: list[AlterPartitionRequest] = []
        self.image = MetadataImage()
        self._lives: dict[int, int] = {}
        self._peers: dict[int, Peers] = {}

    # --- brokers --------------------------------------------------------------------------------

    async def start(self, broker_id: int) -> Broker:
        settings = BrokerSettings.parse(
            {
                "node.id": str(broker_id),
                "log.dirs": str(self._data / str(broker_id)),
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "auto.create.topics.enable": "false",
                **({"broker.rack": f"rack-{broker_id}"} if self._racks else {}),
                **self._settings,
            }
        )
        broker = Broker(settings)
        await broker.start()
        self.brokers[broker_id] = broker
        endpoint = broker.endpoints[0]
        self.addresses[broker_id] = Address(endpoint.host, endpoint.port)
        self._lives[broker_id] = self._lives.get(broker_id, 0) + 1
        known = broker.metadata.image.brokers[broker_id]
        epoch = 100 * self._lives[broker_id] + broker_id
        await self.record([BrokerRegistered(known._replace(epoch=epoch))], skip=broker_id)
        news = records_between(broker.metadata.image, self.image)
        # Each broker's store has its own name and controller: the brokers do not form a cluster.
        await broker.metadata.record(
            [record for record in news if not isinstance(record, ClusterNamed | ControllerElected)]
        )
        peers = self._peers[broker_id] = Peers(broker_id, self.addresses.get)
        broker.replication.start(peers, self._alter)
        return broker

    async def stop(self, broker_id: int, *, clean: bool = True) -> None:
        broker = self.brokers.pop(broker_id)
        self._peers.pop(broker_id).hang_up()
        if clean:
            await broker.stop()
        else:
            broker.abort()

    async def record(self, records: Sequence[MetadataRecord], *, skip: int | None = None) -> None:
        """Applies the records on all brokers except `skip`."""
        self.image = self.image.apply(records)
        for broker_id, broker in list(self.brokers.items()):
            if broker_id != skip:
                await broker.metadata.record(records)

    # --- the topic ------------------------------------------------------------------------------

    async def create(self, *partitions: Partition, **configs: str) -> None:
        records: list[MetadataRecord] = [
            ConfigChanged(topic_resource("t"), name.replace("_", "."), value)
            for name, value in configs.items()
        ]
        await self.record([*records, TopicCreated("t", TOPIC_ID, partitions)])

    async def change(self, partition: Partition, index: int = 0) -> None:
        await self.record([PartitionChanged(TOPIC_ID, index, partition)])

    def partition(self, index: int = 0) -> Partition:
        found = self.image.partition("t", index)
        assert found is not None
        return found

    async def lead(self, broker_id: int, index: int = 0, **changes: object) -> None:
        """Makes a broker the leader, in a new epoch."""
        now = self.partition(index)
        await self.change(
            now._replace(
                leader=broker_id,
                leader_epoch=now.leader_epoch + 1,
                partition_epoch=now.partition_epoch + 1,
                **changes,
            ),
            index,
        )

    async def _alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.asked.append(request)
        if self.hold:
            raise ConnectionFailed("held")
        topics = []
        for topic in request.topics:
            altered = AlteredTopic(topic_id=topic.topic_id, partitions=[])
            for asked in topic.partitions:
                now = self.partition(asked.partition_index)
                assert (asked.leader_epoch, asked.partition_epoch) == (
                    now.leader_epoch,
                    now.partition_epoch,
                )
                after = now._replace(
                    isr=tuple(each.broker_id for each in asked.new_isr_with_epochs),
                    partition_epoch=now.partition_epoch + 1,
                )
                await self.change(after, asked.partition_index)
                altered.partitions.append(
                    AlteredPartition(
                        partition_index=asked.partition_index,
                        leader_id=after.leader,
                        leader_epoch=after.leader_epoch,
                        isr=list(after.isr),
                        partition_epoch=after.partition_epoch,
                    )
                )
            topics.append(altered)
        return AlterPartitionResponse(topics=topics)

    # --- clients --------------------------------------------------------------------------------

    @asynccontextmanager
    async def client(self, broker_id: int) -> AsyncIterator[ClientConnection]:
        line = await connect(self.addresses[broker_id], client_id="test", timeout_s=DEADLINE_S)
        try:
            yield line
        finally:
            await line.close()

    async def produce(
        self,
        broker_id: int,
        *values: bytes,
        index: int = 0,
        acks: int = -1,
        timeout_ms: int = 10_000,
    ) -> PartitionProduceResponse:
        """The response to one batch."""
        async with self.client(broker_id) as line:
            return await produce(line, *values, index=index, acks=acks, timeout_ms=timeout_ms)

    def held(self, broker_id: int, index: int = 0) -> bytes:
        """Every byte of a replica's log."""
        replica = self.brokers[broker_id].partitions.replica("t", index)
        assert replica is not None
        log = replica.log
        data, offset = b"", log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, max_bytes=1 << 24).data
            data += read
            offset = log.log_end_offset if len(read) < 1 << 24 else offset + 1
        return data

    async def until(self, condition: Callable[[], object], what: str) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + DEADLINE_S
        while not condition():
            assert loop.time() < give_up, f"not within {DEADLINE_S} s: {what}"
            await asyncio.sleep(PAUSE_S)

    async def until_alike(self, *broker_ids: int, index: int = 0) -> None:
        """Waits until these replicas hold the same bytes."""
        await self.until(
            lambda: len({self.held(broker_id, index) for broker_id in broker_ids}) == 1,
            f"replicas {broker_ids} are alike",
        )


async def produce(
    line: ClientConnection, *values: bytes, index: int = 0, acks: int = -1, timeout_ms: int = 10_000
) -> PartitionProduceResponse:
    batch = build_batch([Record(at, NOW_MS, None, value, ()) for at, value in enumerate(values)])
    return await produce_batch(line, batch, index=index, acks=acks, timeout_ms=timeout_ms)


async def produce_batch(
    line: ClientConnection,
    batch: bytes,
    *,
    index: int = 0,
    acks: int = -1,
    timeout_ms: int = 10_000,
) -> PartitionProduceResponse:
    answer = await line.request(
        ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name="t", partition_data=[PartitionProduceData(index=index, records=batch)]
                )
            ],
        ),
        ProduceResponse,
        version=12,
        timeout_s=DEADLINE_S,
    )
    return answer.responses[0].partition_responses[0]


@asynccontextmanager
async def handmade_cluster(
    data: Path,
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
    *,
    racks: bool = False,
) -> AsyncIterator[HandmadeCluster]:
    cluster = HandmadeCluster(data, settings or {}, racks=racks)
    try:
        for broker_id in range(1, brokers + 1):
            await cluster.start(broker_id)
        yield cluster
    finally:
        for broker_id in list(cluster.brokers):
            await cluster.stop(broker_id)
