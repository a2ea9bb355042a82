"""Responses leave out, or do not name, what the client may not describe."""

import uuid
from typing import Final

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
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
from headrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType
from support.security.access import (
    TopicUser,
    allow_on_cluster,
    grant,
)
from support.waiting import wait_for
from support.wire.batches import (
    topic_id_of,
)
from support.wire.connection import Wire
from support.wire.topics import create_topic

TOPIC: Final = AclResourceType.TOPIC
GROUP: Final = AclResourceType.GROUP
READ: Final = AclOperation.READ
WRITE: Final = AclOperation.WRITE
DESCRIBE: Final = AclOperation.DESCRIBE
NO_ID: Final = bytes(16)
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
OTHER_LISTENER: Final = "CLIENTS"


# --- hidden resources -------------------------------------------------------------------------


def _metadata(wire: Wire, *names: str, ids: tuple[bytes, ...] = ()) -> list[MetadataResponseTopic]:
    by_name = [MetadataRequestTopic(name=name) for name in names]
    by_id = [MetadataRequestTopic(name=None, topic_id=id_) for id_ in ids]
    request = MetadataRequest(topics=[*by_name, *by_id] or None)
    return wire.call(request, MetadataResponse).topics


def test_a_refusal_does_not_say_whether_the_topic_exists(access: TopicUser, alice: Wire) -> None:
    known, unknown = _metadata(alice, access.topic, "no-such-topic")
    assert (known.error_code, unknown.error_code) == (DENIED, DENIED)
    assert (known.topic_id, unknown.topic_id) == (NO_ID, NO_ID)
    assert not known.partitions


def test_topics_without_describe_are_left_out_of_all_topics(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    assert _metadata(alice) == []
    access.allow(DESCRIBE, TOPIC, access.topic)
    assert [topic.name for topic in _metadata(alice)] == [access.topic]
    pages = alice.call(DescribeTopicPartitionsRequest(), DescribeTopicPartitionsResponse)
    assert [topic.name for topic in pages.topics] == [access.topic]
    assert len(_metadata(admin)) > 1


def test_a_topic_id_without_describe_has_no_name(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    topic_id = topic_id_of(admin, access.topic)
    known, unknown = _metadata(alice, ids=(topic_id, bytes([9] * 16)))
    assert (known.error_code, known.name, known.topic_id) == (DENIED, None, topic_id)
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)])
    (refused,) = alice.call(request, DeleteTopicsResponse).responses
    assert (refused.error_code, refused.name) == (DENIED, None)
    access.allow(DESCRIBE, TOPIC, access.topic)
    (refused,) = alice.call(request, DeleteTopicsResponse).responses
    assert (refused.error_code, refused.name) == (DENIED, access.topic)


def test_auto_creation_needs_create(access: TopicUser, alice: Wire) -> None:
    name = f"{access.topic}-new"
    access.allow(DESCRIBE, TOPIC, name)
    (refused,) = _metadata(alice, name)
    assert refused.error_code == DENIED
    access.allow(AclOperation.CREATE, TOPIC, name)
    (made,) = _metadata(alice, name)
    assert made.error_code == ErrorCode.NONE


def test_the_configs_of_a_new_topic_need_describe_configs(access: TopicUser, alice: Wire) -> None:
    name = f"{access.topic}-new"
    access.allow(AclOperation.CREATE, TOPIC, name)
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)],
        validate_only=True,
    )
    (result,) = alice.call(request, CreateTopicsResponse).topics
    assert (result.error_code, result.topic_config_error_code) == (ErrorCode.NONE, DENIED)
    assert (result.configs, result.num_partitions) == ([], -1)
    access.allow(AclOperation.DESCRIBE_CONFIGS, TOPIC, name)
    (result,) = alice.call(request, CreateTopicsResponse).topics
    assert (result.topic_config_error_code, result.num_partitions) == (ErrorCode.NONE, 1)
    assert result.configs


def test_offsets_of_all_topics_leave_out_those_without_describe(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    assert access.commit(admin, 1) == ErrorCode.NONE
    access.allow(DESCRIBE, GROUP, access.group)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=access.group, topics=None)]
    )
    assert _offset_topics(alice, request) == []
    access.allow(DESCRIBE, TOPIC, access.topic)
    assert _offset_topics(alice, request) == [access.topic]


def _offset_topics(wire: Wire, request: OffsetFetchRequest) -> list[str]:
    (group,) = wire.call(request, OffsetFetchResponse, 9).groups
    assert group.error_code == ErrorCode.NONE
    return [topic.name for topic in group.topics]


def test_groups_without_describe_are_not_listed(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    assert access.commit(admin, 1) == ErrorCode.NONE
    assert alice.call(ListGroupsRequest(), ListGroupsResponse).groups == []
    access.allow(DESCRIBE, GROUP, access.group)
    (listed,) = alice.call(ListGroupsRequest(), ListGroupsResponse).groups
    assert listed.group_id == access.group


def test_transactions_without_describe_are_not_listed(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    begin = InitProducerIdRequest(transactional_id=access.name, transaction_timeout_ms=1000)
    assert admin.call(begin, InitProducerIdResponse).error_code == ErrorCode.NONE
    request = ListTransactionsRequest()
    assert alice.call(request, ListTransactionsResponse).transaction_states == []
    access.allow(DESCRIBE, AclResourceType.TRANSACTIONAL_ID, access.name)
    (state,) = alice.call(request, ListTransactionsResponse).transaction_states
    assert state.transactional_id == access.name


def test_authorized_operations_are_those_of_the_user(access: TopicUser, alice: Wire) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert alice.call(request, DescribeClusterResponse).cluster_authorized_operations == 0
    grant(access.broker, allow_on_cluster(access.name, DESCRIBE))
    bits = alice.call(request, DescribeClusterResponse).cluster_authorized_operations
    assert bits == 1 << DESCRIBE
    access.allow(READ, TOPIC, access.topic)
    topics = MetadataRequest(
        topics=[MetadataRequestTopic(name=access.topic)],
        include_topic_authorized_operations=True,
    )
    (described,) = alice.call(topics, MetadataResponse).topics
    assert described.topic_authorized_operations == 1 << READ | 1 << DESCRIBE


def test_members_are_hidden_if_an_assigned_topic_may_not_be_described(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    join = ConsumerGroupHeartbeatRequest(
        group_id=access.group,
        member_id=str(uuid.uuid4()),
        rebalance_timeout_ms=5000,
        subscribed_topic_names=[access.topic],
        topic_partitions=[],
    )
    assert admin.call(join, ConsumerGroupHeartbeatResponse).error_code == ErrorCode.NONE
    access.allow(DESCRIBE, GROUP, access.group)
    request = ConsumerGroupDescribeRequest(group_ids=[access.group, "not-mine"])
    hidden, refused = _described_groups(alice, request)
    assert (hidden.error_code, hidden.members) == (DENIED, [])
    assert refused.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    access.allow(DESCRIBE, TOPIC, access.topic)
    shown, _ = _described_groups(alice, request)
    assert (shown.error_code, len(shown.members)) == (ErrorCode.NONE, 1)


def _described_groups(
    wire: Wire, request: ConsumerGroupDescribeRequest
) -> list[ConsumerGroupDescribeDescribedGroup]:
    return wire.call(request, ConsumerGroupDescribeResponse).groups


def test_a_pattern_matches_only_topics_that_the_member_may_describe(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    visible = f"{access.topic}-visible"
    create_topic(admin, visible)
    access.allow(READ, GROUP, access.group)
    access.allow(READ, TOPIC, visible)
    request = ConsumerGroupHeartbeatRequest(
        group_id=access.group,
        member_id=str(uuid.uuid4()),
        rebalance_timeout_ms=5000,
        subscribed_topic_regex=f"{access.topic}.*",
        topic_partitions=[],
    )
    first = alice.call(request, ConsumerGroupHeartbeatResponse)
    assert first.error_code == ErrorCode.NONE
    request.member_epoch = first.member_epoch

    def assigned() -> set[bytes]:
        answer = alice.call(request, ConsumerGroupHeartbeatResponse)
        request.member_epoch = answer.member_epoch
        found = answer.assignment
        return {each.topic_id for each in found.topic_partitions} if found else set()

    assert wait_for(assigned, "the pattern is resolved") == {topic_id_of(admin, visible)}
