"""Three brokers continue with the znodes and data directories of version 0.1.0.

tests/data/0.1.0/README.md says what the archive holds. Broker 1 was stopped last.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from headrace.clock import SystemClock
from headrace.cluster.resources import CLUSTER_DEFAULT, broker_resource, topic_resource
from headrace.cluster.stores.zookeeper_store import ZooKeeperStore
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headrace.testing.simulated_znodes import SimulatedZnode, ZnodeTree, name_of, parent_of
from headrace.testing.simulated_zookeeper import SimulatedZooKeeper
from support.brokers.members import Members, run, until
from support.brokers.orders_topic import produce, values
from support.brokers.znode_tables import read_tree
from support.storage.old_data import unpack

SESSION_S = 60.0
DEADLINE_S = 30.0
HANDED_OUT = 3000  # the block that 0.1.0 had reserved for producer ids ends before 4000
BLOCK = 1000
NOTHING_EXPIRES = {
    "log.retention.ms": "-1",
    "offsets.retention.minutes": "2147483647",
    "headrace.stray.log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
}


def tree_of(file: Path) -> ZnodeTree:
    """The znodes with their versions and transaction ids."""
    dumped = json.loads(file.read_text())
    tree = ZnodeTree()
    tree.zxid = dumped["zxid"]
    for path, node in dumped["nodes"].items():
        data = base64.b64decode(node["data"])
        tree.nodes[path] = SimulatedZnode(data, node["czxid"], node["mzxid"], node["version"])
    for path in tree.nodes:
        if path != "/":
            tree.nodes[parent_of(path)].children.add(name_of(path))
    return tree


class OldZooKeeper:
    """A simulated ZooKeeper that holds 0.1.0's znodes; hands out a session for each broker."""

    def __init__(self, file: Path) -> None:
        self.zookeeper = SimulatedZooKeeper()
        self.zookeeper.tree = tree_of(file)
        self._sessions = 0

    def store(self) -> ZooKeeperStore:
        self._sessions += 1
        client = self.zookeeper.client(str(self._sessions), session_timeout_s=SESSION_S)
        return ZooKeeperStore(client, SystemClock())

    def close(self) -> None:
        """Closes nothing: the store has no resources."""


def on_old_cluster(tmp_path: Path, test: Callable[[Members], Awaitable[None]]) -> None:
    home = unpack("0.1.0", "cluster", tmp_path)

    async def main() -> None:
        members = Members(home, settings=NOTHING_EXPIRES)
        members.store.close()
        members.store = OldZooKeeper(home / "znodes.json")  # type: ignore[assignment]
        async with members:
            await until(members.agree, "all brokers have the same metadata")
            await until(lambda: len(members.partition(1).isr) == 3, "all replicas are in sync")
            await test(members)

    run(main())


def test_the_znodes_hold_topics_settings_and_producer_ids(tmp_path: Path) -> None:
    home = unpack("0.1.0", "cluster", tmp_path)
    image = read_tree(tree_of(home / "znodes.json")).image()
    sizes = {topic.name: len(topic.partitions) for topic in image.topics_by_id.values()}
    assert sizes == {"orders": 1, "wide": 6, "__consumer_offsets": 1}
    orders = image.partition("orders", 0)
    assert orders is not None
    assert (orders.replicas, orders.isr, orders.leader) == ((1, 2, 3), (1,), 1)
    assert image.configs[topic_resource("orders")] == {"min.insync.replicas": "2"}
    assert image.configs[topic_resource("wide")] == {"retention.ms": "-1"}
    assert image.configs[CLUSTER_DEFAULT] == {"message.max.bytes": "2000000"}
    assert image.configs[broker_resource(2)] == {"log.cleaner.threads": "2"}


def test_brokers_lead_read_and_replicate(tmp_path: Path) -> None:
    """Every replica has every record, and new ones are acknowledged by all of them."""

    async def test(members: Members) -> None:
        old = [b"order-%d" % number for number in range(5)]
        for id_ in (1, 2, 3):
            assert values(members, id_) == old
        leader = members.partition(1).leader
        answer = await produce(members, leader, b"today")
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 5)
        await until(lambda: values(members, 3) == [*old, b"today"], "broker 3 has the record")

    on_old_cluster(tmp_path, test)


def test_every_partition_gets_a_leader_and_its_replicas(tmp_path: Path) -> None:
    async def test(members: Members) -> None:
        def whole() -> bool:
            parts = [members.partition(1, "wide", index) for index in range(6)]
            return all(each.leader > 0 and len(each.isr) == 2 for each in parts)

        await until(whole, "all replicas of 'wide' are in sync")

    on_old_cluster(tmp_path, test)


def test_a_group_keeps_its_offset(tmp_path: Path) -> None:
    async def test(members: Members) -> None:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"])
        topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id="readers", topics=[topic])]
        )
        async with asyncio.timeout(DEADLINE_S):
            while True:
                (found,) = (await members.ask(1, find, FindCoordinatorResponse)).coordinators
                if found.error_code == ErrorCode.NONE:
                    answer = await members.ask(found.node_id, request, OffsetFetchResponse, 9)
                    (group,) = answer.groups
                    if group.error_code == ErrorCode.NONE:
                        break
        assert group.topics[0].partitions[0].committed_offset == 4

    on_old_cluster(tmp_path, test)


def test_new_producer_ids_come_after_those_of_0_1_0(tmp_path: Path) -> None:
    async def test(members: Members) -> None:
        for id_ in (1, 2, 3):
            answer = await members.ask(
                id_, InitProducerIdRequest(transactional_id=None), InitProducerIdResponse
            )
            assert answer.error_code == ErrorCode.NONE
            assert answer.producer_id >= HANDED_OUT + BLOCK

    on_old_cluster(tmp_path, test)


def test_a_stray_log_is_kept_and_a_deleted_log_is_removed(tmp_path: Path) -> None:
    async def test(members: Members) -> None:
        await until(lambda: not list(tmp_path.glob("*/gone-0.*-delete")), "deleted logs are gone")

    on_old_cluster(tmp_path, test)
    assert list(tmp_path.glob("3/gone-0.*-stray"))
