"""Writes the znodes of a cluster of three brokers and their data directories.

Runs with the source and the test support of version 0.1.0; README.md says how.
"""

import base64
import json
import shutil
import sys
from pathlib import Path

from archives import pack
from tests.support.members import Members, run, until
from tests.support.orders import create, produce, values

from headrace.clock import SystemClock
from headrace.cluster.stores.zookeeper import ZooKeeperStore
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.testing.simulated_zookeeper import SimulatedZooKeeper

TOPIC_RESOURCE, BROKER_RESOURCE, SET = 2, 4, 0
SESSION_S = 60.0
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "controlled.shutdown.enable": "true",
}


class Store:
    """Sessions with one simulated ZooKeeper."""

    def __init__(self) -> None:
        self.zookeeper = SimulatedZooKeeper()
        self._sessions = 0

    def store(self) -> ZooKeeperStore:
        self._sessions += 1
        client = self.zookeeper.client(str(self._sessions), session_timeout_s=SESSION_S)
        return ZooKeeperStore(client, SystemClock())

    def close(self) -> None:
        pass


async def make(home: Path) -> None:
    store = Store()
    members = Members(home, settings=SETTINGS)
    members.store.close()
    members.store = store
    async with members:
        await create(members, configs={"min.insync.replicas": "2"})
        for number in range(5):
            answer = await produce(members, 1, b"order-%d" % number)
            assert answer.error_code == ErrorCode.NONE
        await create_others(members)
        await change_settings(members)
        await commit_offset(members)
        answer = await members.ask(
            1, InitProducerIdRequest(transactional_id=None), InitProducerIdResponse
        )
        assert answer.error_code == ErrorCode.NONE
        await leave_a_stray(members)
        await until(lambda: len(values(members, 3)) == 5, "3 has all records")
        for id_ in (3, 2, 1):
            await members.stop(id_)
        dump(store, home / "znodes.json")


async def create_others(members: Members) -> None:
    wide = CreatableTopic(name="wide", num_partitions=6, replication_factor=2)
    answer = await members.ask(1, CreateTopicsRequest(topics=[wide]), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE
    await create(members, name="gone")
    assert (await produce(members, 1, b"stray", name="gone")).error_code == ErrorCode.NONE


async def change_settings(members: Members) -> None:
    changes = (
        (TOPIC_RESOURCE, "wide", "retention.ms", "-1"),
        (BROKER_RESOURCE, "", "message.max.bytes", "2000000"),
        (BROKER_RESOURCE, "2", "log.cleaner.threads", "2"),
    )
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsAlterableConfig(
                        name=setting, config_operation=SET, value=value
                    )
                ],
            )
            for kind, name, setting, value in changes
        ]
    )
    for each in request.resources:
        one = IncrementalAlterConfigsRequest(resources=[each])
        at = int(each.resource_name) if each.resource_name.isdigit() else 1
        answer = await members.ask(at, one, IncrementalAlterConfigsResponse)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message


async def commit_offset(members: Members) -> None:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"])
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=4)
    commit = OffsetCommitRequest(
        group_id="readers",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )
    while True:
        (found,) = (await members.ask(1, find, FindCoordinatorResponse)).coordinators
        if found.error_code == ErrorCode.NONE:
            answer = await members.ask(found.node_id, commit, OffsetCommitResponse, version=9)
            if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
                return


async def leave_a_stray(members: Members) -> None:
    """Broker 3 is away while a topic is deleted."""
    await members.stop(3)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")])
    answer = await members.ask(1, request, DeleteTopicsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE
    await members.start(3)
    await until(members.agree, "3 is there")
    await until(lambda: len(members.partition(1).isr) == 3, "3 is in sync")


def dump(store: Store, file: Path) -> None:
    """Without what belongs to a session."""
    nodes = {
        path: {
            "data": base64.b64encode(node.data).decode(),
            "czxid": node.czxid,
            "mzxid": node.mzxid,
            "version": node.version,
        }
        for path, node in sorted(store.zookeeper.tree.nodes.items())
        if not node.owner
    }
    file.write_text(json.dumps({"zxid": store.zookeeper.tree.zxid, "nodes": nodes}, indent=1))


def main() -> None:
    home = Path("/tmp/headrace-0.1.0/cluster")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    run(make(home))
    pack(home, Path(sys.argv[1]) / "cluster.tar.xz")


if __name__ == "__main__":
    main()
