"""The same requests to three brokers of Apache Kafka and of Headrace get the same responses.

The tests compare error codes, names, replicas and offsets, not messages. Intended differences are
in docs/compatibility.md and not tested here. Broker 1 leads `led`, 2 follows it, 3 has no replica.
"""

from collections.abc import Callable, Iterator

import pytest

from headrace.protocol.messages import alter_partition_reassignments as alter
from headrace.protocol.messages import create_partitions as grow
from headrace.protocol.messages import create_topics as create
from headrace.protocol.messages import delete_records as trim
from headrace.protocol.messages import delete_topics as delete
from headrace.protocol.messages import describe_cluster, fetch, metadata, produce, unregister_broker
from headrace.protocol.messages import describe_producers as producers
from headrace.protocol.messages import describe_topic_partitions as describe
from headrace.protocol.messages import elect_leaders as elect
from headrace.protocol.messages import list_offsets as offsets
from headrace.protocol.messages import list_partition_reassignments as ongoing
from headrace.protocol.messages import offset_for_leader_epoch as epochs
from headrace.protocol.struct import Struct
from headrace.testing import Cluster
from support.clients.java import KafkaCluster
from support.waiting import wait_for
from support.wire.batches import batch
from support.wire.connection import Wire

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

DEADLINE_S = 60.0
TIMEOUT_MS = 5000
STRANGE_ID = bytes(15) + b"\x4d"
IGNORED = frozenset(
    {"cluster_id", "controller_id", "error_message", "leader_epoch", "port", "session_id"}
)
"""Free to choose; messages are for people."""


class Side:
    """One of the two clusters, with raw requests."""

    def __init__(self, servers: str) -> None:
        self._wires = {id_: Wire(each) for id_, each in enumerate(servers.split(","), 1)}
        wait_for(self._is_whole, "all brokers know each other", deadline_s=DEADLINE_S)
        self.create("led", [1, 2])
        self.create("moves", [1])
        wait_for(self._is_known, "all brokers know the topics", deadline_s=DEADLINE_S)

    def ask(self, request: Struct, broker: int = 1, version: int | None = None) -> Struct:
        return self._wires[broker].ask(request, version)

    def create(self, name: str, replicas: list[int]) -> None:
        placed = create.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        topic = create.CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[placed]
        )
        self.ask(create.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))

    def partition(self, topic: str, broker: int = 1) -> metadata.MetadataResponsePartition | None:
        asked = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        answer = self._wires[broker].call(asked, metadata.MetadataResponse)
        return next(iter(answer.topics[0].partitions), None)

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    def _is_whole(self) -> bool:
        asked, answer = describe_cluster.DescribeClusterRequest, describe_cluster
        return all(
            len(wire.call(asked(), answer.DescribeClusterResponse).brokers) == len(self._wires)
            for wire in self._wires.values()
        )

    def _is_known(self) -> bool:
        known = [self.partition(topic, id_) for id_ in self._wires for topic in ("led", "moves")]
        return all(each is not None and len(each.isr_nodes) > 0 for each in known)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    settings = {"auto.create.topics.enable": "false", "min.insync.replicas": "1"}
    settings["auto.leader.rebalance.enable"] = "false"
    with (
        KafkaCluster(tmp_path_factory.mktemp("kafka"), settings=settings) as kafka,
        Cluster(3, settings=settings, racks=("r1", "r2", "r3")) as headrace,
    ):
        both = Side(kafka.bootstrap_servers), Side(headrace.bootstrap_servers)
        yield both
        for side in both:
            side.close()


def seen(value: object) -> object:
    """A response for comparison: null and an empty list are the same to clients."""
    if isinstance(value, Struct):
        return {name: seen(getattr(value, name)) for name in value._declared if name not in IGNORED}
    if isinstance(value, list):
        return [seen(each) for each in value]
    if isinstance(value, bytes | memoryview):
        return len(value)
    return [] if value is None else value


def reassigned(*wishes: tuple[str, int, list[int] | None], factor: bool = True) -> Struct:
    return alter.AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        allow_replication_factor_change=factor,
        topics=[
            alter.ReassignableTopic(
                name=name,
                partitions=[alter.ReassignablePartition(partition_index=index, replicas=replicas)],
            )
            for name, index, replicas in wishes
        ],
    )


def elected(kind: int, *places: tuple[str, int]) -> Struct:
    asked = [elect.ElectLeadersTopicPartitions(topic=name, partitions=[at]) for name, at in places]
    return elect.ElectLeadersRequest(
        election_type=kind, topic_partitions=asked, timeout_ms=TIMEOUT_MS
    )


def listed(*places: tuple[str, int]) -> Struct:
    asked = [
        ongoing.ListPartitionReassignmentsTopics(name=name, partition_indexes=[at])
        for name, at in places
    ]
    return ongoing.ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=asked)


def created(*assignments: tuple[int, list[int]], counts: tuple[int, int] = (-1, -1)) -> Struct:
    topic = create.CreatableTopic(
        name="new",
        num_partitions=counts[0],
        replication_factor=counts[1],
        assignments=[
            create.CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in assignments
        ],
    )
    # A question only: what would be created has settings that differ from broker to broker.
    return create.CreateTopicsRequest(topics=[topic], validate_only=True, timeout_ms=TIMEOUT_MS)


def grown(total: int, assignments: list[list[int]] | None = None, topic: str = "led") -> Struct:
    placed = assignments and [
        grow.CreatePartitionsAssignment(broker_ids=replicas) for replicas in assignments
    ]
    asked = grow.CreatePartitionsTopic(name=topic, count=total, assignments=placed)
    return grow.CreatePartitionsRequest(topics=[asked], validate_only=True, timeout_ms=TIMEOUT_MS)


def deleted(name: str | None, topic_id: bytes = bytes(16)) -> Struct:
    state = delete.DeleteTopicState(name=name, topic_id=topic_id)
    return delete.DeleteTopicsRequest(topics=[state], timeout_ms=TIMEOUT_MS)


def described(limit: int, cursor: tuple[str, int] | None, *names: str) -> Struct:
    return describe.DescribeTopicPartitionsRequest(
        topics=[describe.DescribeTopicPartitionsTopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor
        and describe.DescribeTopicPartitionsRequestCursor(
            topic_name=cursor[0], partition_index=cursor[1]
        ),
    )


def produced(topic: str, index: int = 0, acks: int = -1) -> Struct:
    data = produce.PartitionProduceData(index=index, records=batch(b"a", timestamp=1))
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[produce.TopicProduceData(name=topic, partition_data=[data])],
    )


def fetched(topic: str, index: int = 0, offset: int = 0, epoch: int = -1) -> Struct:
    wanted = fetch.FetchPartition(
        partition=index, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1000
    )
    return fetch.FetchRequest(topics=[fetch.FetchTopic(topic=topic, partitions=[wanted])])


def looked_up(topic: str, timestamp: int, index: int = 0, epoch: int = -1) -> Struct:
    wanted = offsets.ListOffsetsPartition(
        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
    )
    asked = offsets.ListOffsetsTopic(name=topic, partitions=[wanted])
    return offsets.ListOffsetsRequest(replica_id=-1, topics=[asked], timeout_ms=TIMEOUT_MS)


def ended(topic: str, epoch: int, current: int = -1) -> Struct:
    wanted = epochs.OffsetForLeaderPartition(
        partition=0, leader_epoch=epoch, current_leader_epoch=current
    )
    asked = epochs.OffsetForLeaderTopic(topic=topic, partitions=[wanted])
    return epochs.OffsetForLeaderEpochRequest(replica_id=-1, topics=[asked])


def trimmed(topic: str, offset: int) -> Struct:
    wanted = trim.DeleteRecordsPartition(partition_index=0, offset=offset)
    asked = trim.DeleteRecordsTopic(name=topic, partitions=[wanted])
    return trim.DeleteRecordsRequest(topics=[asked], timeout_ms=TIMEOUT_MS)


def producers_of(topic: str, index: int = 0) -> Struct:
    asked = producers.DescribeProducersTopicRequest(name=topic, partition_indexes=[index])
    return producers.DescribeProducersRequest(topics=[asked])


def cluster_of(kind: int) -> Struct:
    return describe_cluster.DescribeClusterRequest(endpoint_type=kind)


CONTROLLER_DECIDES = [
    *(reassigned(("led", 0, replicas)) for replicas in ([9], [-1], [1, 1], [9, 9], [], [1, 2])),
    reassigned(("none", 0, [1]), ("led", 7, [1]), ("led", -1, [1])),
    reassigned(("led", 0, None), ("led", 7, None), ("none", 0, None)),
    *(reassigned(("led", 0, replicas), factor=False) for replicas in ([1], [1, 2, 3], [1, 2])),
    *(listed(place) for place in (("led", 0), ("led", 7), ("none", 0))),
    elected(0, ("led", 0), ("led", 7), ("none", 0)),
    elected(1, ("led", 0), ("led", 7), ("none", 0)),
    elected(2, ("led", 0)),
    *(created((0, replicas)) for replicas in ([], [9], [1, 1], [-1])),
    created((0, [1, 2]), (1, [1])),
    created((0, [1]), (2, [1])),
    created((1, [1])),
    created((0, [1]), (0, [1])),
    *(created(counts=counts) for counts in ((0, 1), (1, 0), (-2, 1), (1, -2), (1, 4))),
    *(created((0, [1]), counts=counts) for counts in ((1, -1), (-1, 1))),
    *(grown(total) for total in (-1, 0, 1, 3)),
    *(grown(2, [replicas]) for replicas in ([], [1], [9, 1], [1, 1], [1, 2])),
    grown(3, [[1, 2]]),
    grown(2, [[1, 2], [2, 1]]),
    grown(2, topic="none"),
    deleted("none"),
    deleted(None),
    deleted(None, STRANGE_ID),
    deleted("led", STRANGE_ID),
    *(unregister_broker.UnregisterBrokerRequest(broker_id=id_) for id_ in (9, -1)),
]
ANY_BROKER = [
    *(described(limit, None, "led", "moves", "none") for limit in (-1, 0, 1, 2, 2000)),
    *(described(9, at, "led", "moves") for at in (("led", 0), ("moves", 0), ("led", 5))),
    *(described(9, at, "led", "moves") for at in (("led", -1), ("none", 0), ("zzz", 0))),
    *(cluster_of(kind) for kind in (2, 3)),
]
EACH_BROKER = [
    *(looked_up("led", timestamp) for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, 1, 2)),
    *(looked_up("led", -1, index) for index in (7, -1)),
    looked_up("none", -1),
    *(ended("led", epoch) for epoch in (-1, 0, 1)),
    ended("none", 0),
    *(fetched("led", 0, offset) for offset in (-1, 99)),
    *(fetched("led", index) for index in (7, -1)),
    fetched("none"),
    *(trimmed("led", offset) for offset in (-2, 99, 0)),
    trimmed("none", 0),
    *(producers_of("led", index) for index in (0, 7, -1)),
    *(producers_of(topic) for topic in ("none", "no name")),
    *(produced("led", index) for index in (7, -1)),
    produced("none"),
    produced("led", acks=2),
]
BY_NAME = {fetch.FetchRequest: 10, produce.ProduceRequest: 12}
"""The last versions that name topics; no follower answers a fetch before v11, in Kafka either."""


def differences(
    sides: tuple[Side, Side], requests: list[Struct], brokers: tuple[int, ...] = (1,)
) -> list[str]:
    found = []
    for request in requests:
        for broker in brokers:
            version = BY_NAME.get(type(request))
            kafka, headrace = (seen(side.ask(request, broker, version)) for side in sides)
            if kafka != headrace:
                found.append(f"{request} to {broker}:\n  Kafka {kafka}\n  Headrace {headrace}")
    return found


def test_the_controller_answers_as_in_kafka(sides: tuple[Side, Side]) -> None:
    found = differences(sides, CONTROLLER_DECIDES)
    assert not found, "\n".join(found)


def test_any_broker_answers_as_in_kafka(sides: tuple[Side, Side]) -> None:
    for side in sides:
        wait_for(
            lambda side=side: sorted(side.partition("led").isr_nodes) == [1, 2],  # type: ignore[misc]
            "both are in sync",
            deadline_s=DEADLINE_S,
        )
    found = differences(sides, ANY_BROKER)
    assert not found, "\n".join(found)


def test_leaders_followers_and_other_brokers_answer_as_in_kafka(sides: tuple[Side, Side]) -> None:
    found = differences(sides, [produced("led")] * 2)
    assert not found, "\n".join(found)
    found = differences(sides, EACH_BROKER, (1, 2, 3))
    assert not found, "\n".join(found)


def test_a_moved_partition_is_described_as_in_kafka(sides: tuple[Side, Side]) -> None:
    targets: list[list[int]] = [[1, 2], [2, 1], [1, 2, 3], [3], [2, 3]]
    twice = alter.AlterPartitionReassignmentsRequest(
        topics=[
            alter.ReassignableTopic(
                name="moves",
                partitions=[
                    alter.ReassignablePartition(partition_index=0, replicas=[id_]) for id_ in (3, 1)
                ],
            )
        ]
    )
    moves: list[tuple[Struct, list[int]]] = [
        (reassigned(("moves", 0, target)), target) for target in targets
    ]
    for side in sides:
        for request, target in (*moves, (twice, [1])):
            side.ask(request)
            wait_for(_is_at(side, target), f"it is on {target}", deadline_s=DEADLINE_S)


def _is_at(side: Side, target: list[int]) -> Callable[[], bool]:
    def look() -> bool:
        found = side.partition("moves")
        return found is not None and list(found.replica_nodes) == target

    return look
