"""Topics over the wire: creating, describing, deleting and auto-creation."""

from collections.abc import Callable

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsTopicRequest,
)
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from support.brokers.processes import Spawn
from support.waiting import wait_for
from support.wire.batches import batch, produce, topic_id_of
from support.wire.connection import Wire
from support.wire.topics import create_topic

CREATE = APIS[ApiKey.CREATE_TOPICS]
DELETE = APIS[ApiKey.DELETE_TOPICS]
METADATA = APIS[ApiKey.METADATA]
NO_ID = bytes(16)


def create(wire: Wire, *topics: CreatableTopic, validate_only: bool = False) -> list[int]:
    return [result.error_code for result in results(wire, *topics, validate_only=validate_only)]


def results(
    wire: Wire, *topics: CreatableTopic, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(
        topics=list(topics), timeout_ms=10_000, validate_only=validate_only
    )
    return wire.call(request, CreateTopicsResponse).topics


def delete(wire: Wire, *topics: DeleteTopicState) -> list[int]:
    request = DeleteTopicsRequest(topics=list(topics), timeout_ms=10_000)
    return [one.error_code for one in wire.call(request, DeleteTopicsResponse).responses]


def metadata(
    wire: Wire, name: str, *, version: int = 12, auto_create: bool = False
) -> MetadataResponseTopic:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=auto_create
    )
    (topic,) = wire.call(request, MetadataResponse, version).topics
    return topic


def named(name: str, partitions: int = 1, replicas: int = 1, **more: object) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("version", range(CREATE.min_version, CREATE.max_version + 1))
def test_every_version_creates_topics(
    wire: Wire, new_name: Callable[[], str], version: int
) -> None:
    name = new_name()
    request = CreateTopicsRequest(topics=[named(name, 3)], timeout_ms=10_000)
    (result,) = wire.call(request, CreateTopicsResponse, version).topics
    assert result.error_code == 0
    told = wait_for(lambda: metadata(wire, name).partitions, "the topic is there")
    assert [part.partition_index for part in told] == [0, 1, 2]
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        assert {config.name for config in result.configs or []} >= {"cleanup.policy"}
    if version >= 7:
        assert result.topic_id == topic_id_of(wire, name) != NO_ID


def test_minus_one_selects_the_brokers_defaults(wire: Wire, new_name: Callable[[], str]) -> None:
    (result,) = results(wire, named(new_name(), -1, -1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 1, 1)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (".", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("../../etc", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("naïve", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a\0b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a\nb", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_names_that_kafka_forbids_are_rejected(wire: Wire, name: str, code: ErrorCode) -> None:
    assert create(wire, named(name)) == [code]
    assert delete(wire, DeleteTopicState(name=name)) != [0]


def test_the_longest_name_is_accepted(wire: Wire, new_name: Callable[[], str]) -> None:
    name = new_name().ljust(249, "x")
    assert create(wire, named(name)) == [0]


def test_names_that_differ_only_in_dot_and_underscore_collide(
    wire: Wire, new_name: Callable[[], str]
) -> None:
    name = new_name()
    assert create(wire, named(f"{name}.a_b")) == [0]
    assert create(wire, named(f"{name}_a.b")) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_invalid_counts_are_rejected(wire: Wire, new_name: Callable[[], str]) -> None:
    assert create(wire, named(new_name(), 0)) == [ErrorCode.INVALID_PARTITIONS]
    assert create(wire, named(new_name(), -2)) == [ErrorCode.INVALID_PARTITIONS]
    assert create(wire, named(new_name(), 1, 0)) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert create(wire, named(new_name(), 1, 2)) == [ErrorCode.INVALID_REPLICATION_FACTOR]


def test_existing_and_duplicate_topics_are_rejected(
    wire: Wire, topic: str, new_name: Callable[[], str]
) -> None:
    assert create(wire, named(topic)) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    twice = new_name()
    assert set(create(wire, named(twice), named(twice))) == {ErrorCode.INVALID_REQUEST}
    assert metadata(wire, twice).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_invalid_topic_does_not_affect_the_others(
    wire: Wire, new_name: Callable[[], str]
) -> None:
    good = new_name()
    outcome = {
        result.name: result.error_code for result in results(wire, named(good), named("a b"))
    }
    assert outcome == {good: 0, "a b": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_validate_only_creates_nothing(wire: Wire, new_name: Callable[[], str]) -> None:
    name = new_name()
    assert create(wire, named(name), validate_only=True) == [0]
    assert metadata(wire, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert create(wire, named(name, 0), validate_only=True) == [ErrorCode.INVALID_PARTITIONS]


def test_an_empty_config_value_is_returned_as_set(wire: Wire, new_name: Callable[[], str]) -> None:
    config = CreatableTopicConfig(name="cleanup.policy", value="")
    (result,) = results(wire, named(new_name(), configs=[config]))
    told = {each.name: each.value for each in result.configs or []}
    assert told["cleanup.policy"] == ""


def test_invalid_configs_are_rejected(wire: Wire, new_name: Callable[[], str]) -> None:
    for key, value in (
        ("no.such.config", "1"),
        ("retention.ms", "soon"),
        ("cleanup.policy", "shred"),
        ("segment.bytes", "-1"),
        ("min.insync.replicas", "0"),
    ):
        config = CreatableTopicConfig(name=key, value=value)
        (result,) = results(wire, named(new_name(), configs=[config]))
        assert result.error_code == ErrorCode.INVALID_CONFIG, key
        assert key in (result.error_message or "")


def test_invalid_manual_assignments_are_rejected(wire: Wire, new_name: Callable[[], str]) -> None:
    brokers = wire.call(MetadataRequest(topics=[]), MetadataResponse, 12).brokers
    node = brokers[0].node_id

    def assigned(*parts: tuple[int, list[int]], partitions: int = -1) -> CreatableTopic:
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in parts
        ]
        return named(new_name(), partitions, -1, assignments=assignments)

    bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert create(wire, assigned((0, [node]), (1, [node]))) == [0]
    assert create(wire, assigned((0, [node + 5]))) == [bad]
    assert create(wire, assigned((0, [node, node]))) == [bad]
    assert create(wire, assigned((0, []))) == [bad]
    assert create(wire, assigned((1, [node]))) == [bad]
    both = assigned((0, [node]), partitions=1)
    assert create(wire, both) == [ErrorCode.INVALID_REQUEST]


# --- deleting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(DELETE.min_version, DELETE.max_version + 1))
def test_every_version_deletes_topics(wire: Wire, topic: str, version: int) -> None:
    if version >= 6:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000)
    else:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000)
    (result,) = wire.call(request, DeleteTopicsResponse, version).responses
    assert (result.name, result.error_code) == (topic, 0)
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wait_for(lambda: metadata(wire, topic).error_code == gone, "the topic is gone")
    wait_for(lambda: produce(wire, topic, batch(b"a")).error_code == gone, "nobody leads it")


def test_a_topic_can_be_deleted_by_id(wire: Wire, topic: str) -> None:
    topic_id = topic_id_of(wire, topic)
    assert delete(wire, DeleteTopicState(name=None, topic_id=topic_id)) == [0]
    again = delete(wire, DeleteTopicState(name=None, topic_id=topic_id))
    assert again == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_an_unknown_topic_cannot_be_deleted(wire: Wire, new_name: Callable[[], str]) -> None:
    assert delete(wire, DeleteTopicState(name=new_name())) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_recreated_topic_has_a_new_id_and_none_of_the_old_data(wire: Wire, topic: str) -> None:
    old_id = topic_id_of(wire, topic)
    produce(wire, topic, batch(b"old", b"older"))
    assert delete(wire, DeleteTopicState(name=topic)) == [0]
    wait_for(lambda: not any(topic_id_of(wire, topic)), "the topic is gone")
    create_topic(wire, topic)
    new_id = topic_id_of(wire, topic)
    assert new_id not in (old_id, NO_ID)
    assert produce(wire, topic, batch(b"new")).base_offset == 0
    stale = produce(wire, "", batch(b"a"), version=13, topic_id=old_id)
    assert stale.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    fresh = produce(wire, "", batch(b"a"), version=13, topic_id=new_id)
    assert (fresh.error_code, fresh.base_offset) == (0, 1)


# --- partitions -------------------------------------------------------------------------------


def test_partitions_can_only_be_added(wire: Wire, topic: str, new_name: Callable[[], str]) -> None:
    def grow(name: str, count: int, assignments: list[list[int]] | None = None) -> int:
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=None
                    if assignments is None
                    else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments],
                )
            ],
            timeout_ms=5000,
        )
        (result,) = wire.call(request, CreatePartitionsResponse).results
        return result.error_code

    assert grow(topic, 3) == 0
    wait_for(lambda: len(metadata(wire, topic).partitions) == 3, "three partitions")
    assert grow(topic, 3) == ErrorCode.INVALID_PARTITIONS
    assert grow(topic, 2) == ErrorCode.INVALID_PARTITIONS
    assert grow(topic, -1) == ErrorCode.INVALID_PARTITIONS
    assert grow(topic, 5, [[99], [99]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(topic, 5, [[1]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(new_name(), 3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wait_for(lambda: produce(wire, topic, batch(b"a"), partition=2).error_code == 0, "it is led")


# --- describing -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(METADATA.max_version + 1))
def test_every_version_lists_brokers_and_topics(wire: Wire, topic: str, version: int) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    answer = wire.call(request, MetadataResponse, version)
    (told,) = answer.topics
    (node,) = answer.brokers
    (partition,) = told.partitions
    assert (told.name, told.error_code, partition.leader_id) == (topic, 0, node.node_id)
    assert partition.replica_nodes == partition.isr_nodes == [node.node_id]


def test_an_empty_list_and_all_topics_are_distinguished(wire: Wire, topic: str) -> None:
    assert wire.call(MetadataRequest(topics=[]), MetadataResponse, 12).topics == []
    every = wire.call(MetadataRequest(topics=None), MetadataResponse, 12).topics
    assert topic in {told.name for told in every}
    # Version 0 has no null: its empty list means all.
    every = wire.call(MetadataRequest(topics=[]), MetadataResponse, 0).topics
    assert topic in {told.name for told in every}


def test_metadata_can_be_requested_by_topic_id(wire: Wire, topic: str) -> None:
    topic_id = topic_id_of(wire, topic)
    asked = [
        MetadataRequestTopic(name=None, topic_id=topic_id),
        MetadataRequestTopic(name=None, topic_id=b"\x05" * 16),
    ]
    answer = wire.call(MetadataRequest(topics=asked), MetadataResponse, 12).topics
    told = {one.topic_id: (one.error_code, one.name) for one in answer}
    assert told == {
        topic_id: (0, topic),
        b"\x05" * 16: (ErrorCode.UNKNOWN_TOPIC_ID, None),
    }


def test_topics_can_be_described_in_pages(wire: Wire, new_name: Callable[[], str]) -> None:
    name = new_name()
    create_topic(wire, name, 5)
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsTopicRequest(name=name)],
        response_partition_limit=2,
        cursor=None,
    )
    seen: list[int] = []
    while True:
        answer = wire.call(request, DescribeTopicPartitionsResponse)
        (told,) = answer.topics
        assert told.error_code == 0
        seen += [part.partition_index for part in told.partitions]
        if answer.next_cursor is None:
            break
        request.cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )
        assert answer.next_cursor.topic_name == name
    assert seen == [0, 1, 2, 3, 4]


def test_a_description_reports_unknown_and_invalid_names(
    wire: Wire, new_name: Callable[[], str]
) -> None:
    def ask(name: str, cursor: DescribeTopicPartitionsRequestCursor | None = None) -> list[int]:
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsTopicRequest(name=name)], cursor=cursor
        )
        answer = wire.call(request, DescribeTopicPartitionsResponse)
        return [topic.error_code for topic in answer.topics]

    assert ask(new_name()) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert ask("not a name") == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    start = DescribeTopicPartitionsRequestCursor(topic_name="", partition_index=0)
    assert ask("", start) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    before = DescribeTopicPartitionsRequestCursor(topic_name="a", partition_index=-1)
    assert ask("a", before) == [ErrorCode.INVALID_REQUEST]
    elsewhere = DescribeTopicPartitionsRequestCursor(topic_name="b", partition_index=0)
    assert ask("a", elsewhere) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_of_a_description_has_at_least_one_partition(
    wire: Wire, new_name: Callable[[], str], limit: int
) -> None:
    """A client that continues from the cursor of an empty page would never finish."""
    name = new_name()
    create_topic(wire, name, partitions=2)
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsTopicRequest(name=name)], response_partition_limit=limit
    )
    answer = wire.call(request, DescribeTopicPartitionsResponse)
    assert [part.partition_index for part in answer.topics[0].partitions] == [0]
    assert answer.next_cursor is not None
    assert answer.next_cursor.partition_index == 1


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_by_id_is_rejected_before_version_12(wire: Wire, topic: str, version: int) -> None:
    asked = MetadataRequestTopic(name=None, topic_id=topic_id_of(wire, topic))
    (told,) = wire.call(MetadataRequest(topics=[asked]), MetadataResponse, version).topics
    assert told.error_code == ErrorCode.INVALID_REQUEST


# --- auto-creation ----------------------------------------------------------------------------


def test_metadata_creates_topics_when_client_and_broker_allow(
    wire: Wire, new_name: Callable[[], str]
) -> None:
    name = new_name()
    assert metadata(wire, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert metadata(wire, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wait_for(lambda: metadata(wire, name, auto_create=True).partitions, "the topic is created")
    # Before version 4 a client cannot forbid it.
    old = new_name()
    wait_for(lambda: metadata(wire, old, version=3, auto_create=True).partitions, "created")


def test_auto_creation_still_checks_the_name(wire: Wire) -> None:
    told = metadata(wire, "not a name", auto_create=True)
    assert told.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_broker_can_forbid_auto_creation(spawn: Spawn) -> None:
    broker = spawn({"auto.create.topics.enable": "false"})
    with Wire(broker.bootstrap_servers) as wire:
        told = metadata(wire, "wanted", auto_create=True)
        assert told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert wire.call(MetadataRequest(topics=None), MetadataResponse, 12).topics == []
