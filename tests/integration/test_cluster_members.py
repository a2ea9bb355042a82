"""Three brokers in one process form a cluster over a shared store."""

import asyncio
from pathlib import Path

import pytest

import headrace.testing
from headrace.broker.node import Broker
from headrace.broker.runtime.environment import Environment
from headrace.broker.runtime.errors import StartupError
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.stores.embedded import EmbeddedCluster
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from headrace.cluster.topology import NO_LEADER
from headrace.controller.topic_changes import NewTopic
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.protocol.messages.cluster_metadata import ClusterMetadataRequest
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
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
)
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from support.brokers.members import Members, run, until
from support.wire.connection import Wire

NO_DETECTION = {"headrace.fast.failure.detection": "false"}
NO_REBALANCING = {"auto.leader.rebalance.enable": "false"}


async def create(
    members: Members, at: int, name: str = "orders", partitions: int = 6, replicas: int = 3
) -> None:
    new = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    answer = await members.ask(at, CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message


def others(members: Members, id_: int) -> list[int]:
    return [each for each in members.brokers if each != id_]


# -- membership ----------------------------------------------------------------------------------


def test_every_broker_lists_all_brokers_and_the_controller(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            controller = members.controller
            assert controller
            for id_ in members.brokers:
                await until(
                    lambda id_=id_: len(members.brokers[id_].metadata.image.live_brokers()) == 3,
                    "everybody is known",
                )
                metadata = await members.ask(id_, MetadataRequest(topics=[]), MetadataResponse)
                described = await members.ask(
                    id_, DescribeClusterRequest(), DescribeClusterResponse
                )
                assert metadata.controller_id == described.controller_id == controller
                assert {each.node_id for each in metadata.brokers} == {1, 2, 3}
                assert {each.rack for each in described.brokers} == {"rack-1", "rack-2", "rack-3"}

    run(test())


def test_a_topic_created_at_any_broker_is_known_to_all_on_response(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            for id_ in (1, 2, 3):
                await create(members, id_, f"at-{id_}")
                for broker in members.brokers.values():
                    assert f"at-{id_}" in broker.partitions.by_name
            leaders = [
                partition.leader
                for topic in members.brokers[1].metadata.image.topics.values()
                for partition in topic.partitions
            ]
            assert {leaders.count(id_) for id_ in (1, 2, 3)} == {6}

    run(test())


def test_a_topic_requested_by_metadata_is_created_by_the_controller(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="asked-for")])
            at = others(members, members.controller)[0]
            answer = await members.ask(at, asked, MetadataResponse)
            assert answer.topics[0].error_code == ErrorCode.NONE
            assert len(answer.topics[0].partitions) == 1

    run(test())


def test_configs_altered_at_any_broker_apply_to_all(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            await create(members, 1)
            topic, broker = 2, 4
            request = IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsAlterConfigsResource(
                        resource_type=topic,
                        resource_name="orders",
                        configs=[
                            IncrementalAlterConfigsAlterableConfig(
                                name="retention.ms", value="7200000"
                            )
                        ],
                    ),
                    IncrementalAlterConfigsAlterConfigsResource(
                        resource_type=broker,
                        resource_name="3",
                        configs=[
                            IncrementalAlterConfigsAlterableConfig(
                                name="log.cleaner.threads", value="2"
                            )
                        ],
                    ),
                ]
            )
            at = others(members, members.controller)[0]
            answer = await members.ask(at, request, IncrementalAlterConfigsResponse)
            assert [each.error_code for each in answer.responses] == [0, 0]
            for each in members.brokers.values():
                assert each.partitions.by_name["orders"].config.retention_ms == 7200000

    run(test())


def test_producer_ids_are_unique_across_brokers(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            brokers = list(members.brokers.values())
            ids = [
                await broker.producer_ids.wait_for_next_id() for broker in brokers for _ in range(3)
            ]
            assert len(set(ids)) == len(ids)

    run(test())


def test_a_standalone_node_rejects_inter_broker_requests() -> None:
    with headrace.testing.Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        wire.send(ClusterMetadataRequest(), 0)
        assert wire.ends()


def test_a_data_directory_of_another_cluster_is_rejected(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, 1) as members:
            await members.stop(1)
        elsewhere = EmbeddedCluster(SqliteStore(IN_MEMORY))
        settings = BrokerSettings.parse(
            {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": f"{tmp_path}/1"}
        )
        world = Environment(cluster_store=lambda *_: elsewhere.store())
        with pytest.raises(StartupError, match=r"belongs to cluster .*, this broker to"):
            await Broker(settings, environment=world).start()

    run(test())


# -- crashes -------------------------------------------------------------------------------------


def test_a_crashed_broker_is_fenced_at_once_and_its_partitions_get_new_leaders(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            await create(members, 1)
            victim = others(members, members.controller)[0]
            members.kill(victim)
            for id_ in members.brokers:
                await until(
                    lambda id_=id_: members.brokers[id_].metadata.image.brokers[victim].fenced,
                    "the crash is known",
                )
                for partition in members.brokers[id_].metadata.image.topics["orders"].partitions:
                    assert partition.leader not in (victim, NO_LEADER)
                    assert victim not in partition.isr

    run(test())


def test_a_crashed_controller_is_replaced_at_once_and_its_partitions_get_new_leaders(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            await create(members, 1)
            victim = members.controller
            epoch = members.brokers[victim].metadata.image.controller_epoch
            members.kill(victim)
            await until(lambda: members.controller, "somebody is elected")
            for id_, broker in members.brokers.items():
                await until(
                    lambda id_=id_: members.brokers[id_].metadata.image.brokers[victim].fenced,
                    "the crash is known",
                )
                assert broker.metadata.image.controller_epoch == epoch + 1
                assert broker.metadata.image.controller_id == members.controller
                for partition in broker.metadata.image.topics["orders"].partitions:
                    assert partition.leader in members.brokers
            await create(members, members.controller, "after", replicas=2)

    run(test())


def test_a_controller_and_a_broker_that_crash_together_are_both_fenced(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, 4) as members:
            await create(members, 1, replicas=4)
            first = members.controller
            second = others(members, first)[0]
            members.kill(first)
            members.kill(second)
            await until(lambda: members.controller, "somebody is elected")
            image = members.brokers[members.controller].metadata
            await until(
                lambda: image.image.brokers[first].fenced and image.image.brokers[second].fenced,
                "both are fenced",
            )

    run(test())


def test_without_fast_detection_a_broker_is_fenced_when_its_session_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, settings=NO_DETECTION) as members:
            await create(members, 1)
            controller = members.controller
            victim = others(members, controller)[0]
            session = members.sessions[victim]
            members.kill(victim)
            await create(members, controller, "later", replicas=1)  # it serves requests meanwhile
            assert not members.brokers[controller].metadata.image.brokers[victim].fenced
            session.expire()
            await until(
                lambda: members.brokers[controller].metadata.image.brokers[victim].fenced,
                "its session has ended",
            )

    run(test())


def test_a_broker_with_an_expired_session_registers_again_and_stays_in_sync(tmp_path: Path) -> None:
    # The same process has a new epoch: its acknowledged records are still valid.
    async def test() -> None:
        async with Members(tmp_path, settings=NO_REBALANCING) as members:
            await create(members, 1)
            victim = others(members, members.controller)[0]
            before = members.brokers[victim].broker_epoch
            members.sessions[victim].expire()
            await until(lambda: members.brokers[victim].broker_epoch > before, "a new epoch")
            controller = members.controller
            await until(
                lambda: (
                    members.brokers[controller].metadata.image.brokers[victim].epoch
                    == members.brokers[victim].broker_epoch
                ),
                "the new life is known",
            )
            assert not members.brokers[controller].metadata.image.brokers[victim].fenced

    run(test())


def test_a_controller_with_an_expired_session_resigns(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            victim = members.controller
            before = members.brokers[victim].metadata.image.controller_epoch
            members.sessions[victim].expire()
            await until(
                lambda: (
                    all(
                        broker.metadata.image.controller_epoch > before
                        for broker in members.brokers.values()
                    )
                    and members.agree()
                ),
                "a new term, and everybody knows of it",
            )
            assert sum(broker.is_controller for broker in members.brokers.values()) == 1
            await create(members, victim)

    run(test())


# -- restarts ------------------------------------------------------------------------------------


def test_a_stopping_broker_hands_over_leadership_and_can_lead_after_its_return(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with Members(tmp_path, settings=NO_REBALANCING) as members:
            await create(members, 1)
            for victim in (members.controller, others(members, members.controller)[0]):
                epoch = members.brokers[victim].broker_epoch
                await members.stop(victim)
                await until(lambda: members.controller, "a controller is elected")
                await until(
                    lambda victim=victim: (
                        members.brokers[members.controller].metadata.image.brokers[victim].fenced
                    ),
                    "it is gone",
                )
                for partition in (
                    members.brokers[members.controller].metadata.image.topics["orders"].partitions
                ):
                    assert partition.leader in members.brokers
                broker = await members.start(victim)
                assert broker.logs.clean_epoch == epoch

    run(test())


def test_a_crashed_sole_replica_leads_again_after_its_return(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            victim = others(members, members.controller)[0]
            new = NewTopic("alone", assignments=[(0, [victim])])
            await members.brokers[victim].metadata.create_topics([new])
            members.kill(victim)
            controller = members.controller
            await until(
                lambda: members.partition(controller, "alone").leader == NO_LEADER, "no leader"
            )
            answer = await members.ask(
                controller,
                MetadataRequest(topics=[MetadataRequestTopic(name="alone")]),
                MetadataResponse,
            )
            told = answer.topics[0].partitions[0]
            assert told.error_code == ErrorCode.LEADER_NOT_AVAILABLE
            assert told.offline_replicas == [victim]
            broker = await members.start(victim)
            assert broker.partitions.by_name["alone"].leader(0) is not None
            assert members.partition(victim, "alone").leader_epoch >= 2

    run(test())


def test_an_offline_replica_does_not_restore_a_deleted_topic(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            await create(members, 1)
            victim = others(members, members.controller)[0]
            await members.stop(victim)
            at = members.controller
            deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")])
            answer = await members.ask(at, deletion, DeleteTopicsResponse)
            assert answer.responses[0].error_code == ErrorCode.NONE
            await create(members, at, partitions=1, replicas=1)
            broker = await members.start(victim)
            held = {log.topic_id for log in broker.logs}
            assert held <= set(broker.metadata.image.topics_by_id)
            assert not list((tmp_path / str(victim)).glob("orders-[1-9]"))

    run(test())


# -- admin requests to the controller ------------------------------------------------------------


def test_leaders_are_elected_and_reassigned_by_request_at_any_broker(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, settings=NO_REBALANCING) as members:
            new = NewTopic("orders", assignments=[(0, [1, 2])])
            await members.brokers[1].metadata.create_topics([new])
            at = others(members, members.controller)[0]
            everything = [ElectLeadersTopicPartitions(topic="orders", partitions=[0])]
            elected = await members.ask(
                at, ElectLeadersRequest(topic_partitions=everything), ElectLeadersResponse
            )
            result = elected.replica_election_results[0].partition_result[0]
            assert result.error_code == ErrorCode.ELECTION_NOT_NEEDED
            wanted = ReassignableTopic(
                name="orders",
                partitions=[ReassignablePartition(partition_index=0, replicas=[1, 3])],
            )
            answer = await members.ask(
                at,
                AlterPartitionReassignmentsRequest(topics=[wanted]),
                AlterPartitionReassignmentsResponse,
            )
            assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
            # Either it is still in progress and listed, or replication finished before the request.
            listed = await members.ask(
                at, ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse
            )
            partition = members.partition(members.controller)
            assert listed.topics or partition.replicas == (1, 3)

    run(test())


def test_a_running_broker_is_not_unregistered_and_a_dead_one_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            controller = members.controller
            victim, at = others(members, controller)
            request = UnregisterBrokerRequest(broker_id=victim)
            refused = await members.ask(at, request, UnregisterBrokerResponse)
            assert refused.error_code == ErrorCode.INVALID_REQUEST
            await members.stop(victim)
            await until(
                lambda: members.brokers[controller].metadata.image.brokers[victim].fenced, "fenced"
            )
            done = await members.ask(at, request, UnregisterBrokerResponse)
            assert done.error_code == ErrorCode.NONE
            await until(lambda: victim not in members.brokers[at].metadata.image.brokers, "gone")

    run(test())


def test_a_leader_with_an_old_broker_or_leader_epoch_cannot_change_the_isr(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, settings=NO_REBALANCING) as members:
            await create(members, 1, partitions=1)
            controller = members.controller
            partition = members.partition(controller)
            topic_id = members.brokers[controller].metadata.image.topics["orders"].topic_id

            async def alter(broker_epoch: int, leader_epoch: int, partition_epoch: int) -> int:
                epochs = {id_: each.broker_epoch for id_, each in members.brokers.items()}
                isr = [id_ for id_ in partition.isr if id_ != partition.replicas[-1]]
                data = AlterPartitionData(
                    leader_epoch=leader_epoch,
                    partition_epoch=partition_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=id_, broker_epoch=epochs[id_]) for id_ in isr
                    ],
                )
                request = AlterPartitionRequest(
                    broker_id=partition.leader,
                    broker_epoch=broker_epoch,
                    topics=[AlterPartitionTopic(topic_id=topic_id, partitions=[data])],
                )
                answer = await members.ask(controller, request, AlterPartitionResponse)
                return answer.error_code or answer.topics[0].partitions[0].error_code

            # Otherwise the removed replica rejoins before the test can see it.
            members.brokers[partition.replicas[-1]].replication.stop()
            epoch = members.brokers[partition.leader].broker_epoch
            at = partition.partition_epoch
            assert await alter(epoch - 1, 0, at) == ErrorCode.STALE_BROKER_EPOCH
            assert await alter(epoch, 7, at) == ErrorCode.NOT_CONTROLLER
            assert await alter(epoch, 0, at) == ErrorCode.NONE
            assert await alter(epoch, 0, at) == ErrorCode.NONE  # a repetition is not a conflict
            assert partition.replicas[-1] not in members.partition(controller).isr

    run(test())


def test_a_broker_that_is_not_the_controller_returns_not_controller(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            at = others(members, members.controller)[0]
            answer = await members.ask(at, AlterPartitionRequest(), AlterPartitionResponse)
            assert answer.error_code == ErrorCode.NOT_CONTROLLER

    run(test())


def test_requests_during_a_controller_change_wait_for_the_new_controller(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path) as members:
            victim = members.controller
            at = others(members, victim)
            members.kill(victim)
            await asyncio.gather(
                *(create(members, id_, f"meanwhile-{id_}", replicas=1) for id_ in at)
            )

    run(test())


def test_clients_are_not_sent_to_a_leader_that_has_just_crashed(tmp_path: Path) -> None:
    # A client asks before the election ends; with the dead leader it would wait a long time.
    async def test() -> None:
        async with Members(tmp_path) as members:
            await create(members, 1, partitions=1)
            victim = members.partition(1).leader
            at = others(members, victim)[0]
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
            await members.ask(at, asked, MetadataResponse)  # the connection is there
            members.kill(victim)
            await until(
                lambda: (
                    members.brokers[at].membership.crashes.suspicions  # type: ignore[union-attr]
                    or members.brokers[at].metadata.image.brokers[victim].fenced
                ),
                "the end of its connection is noticed",
            )
            answer = await members.ask(at, asked, MetadataResponse)
            assert answer.topics[0].partitions[0].leader_id != victim
            # Still listed: a client may be about to reassign its partitions.
            assert victim in {each.node_id for each in answer.brokers}
            everything = await members.ask(at, MetadataRequest(topics=None), MetadataResponse)
            assert victim not in {each.node_id for each in everything.brokers}

    run(test())
