"""Share groups: rights of a member that are revoked between its requests, or while it waits."""

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from headrace.protocol.messages.share_fetch import ShareFetchResponse
from headrace.security.authorization.acl import Acl, AclOperation, AclResourceType
from support.security.access import TopicUser, revoke
from support.waiting import wait_for
from support.wire.batches import batch, produce, topic_id_of
from support.wire.connection import Wire
from support.wire.share_member import ShareMember, set_group_config, start_state

ACCEPT = 1
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
LONG_MS = 20_000


@pytest.fixture
def rights(access: TopicUser) -> dict[AclResourceType, Acl]:
    """READ on the group and on the topic."""
    return {
        type_: access.allow(AclOperation.READ, type_, name)
        for type_, name in (
            (AclResourceType.GROUP, access.group),
            (AclResourceType.TOPIC, access.topic),
        )
    }


@pytest.fixture
def member(
    access: TopicUser, alice: Wire, admin: Wire, rights: dict[AclResourceType, Acl]
) -> ShareMember:
    """A member of a share group that reads the topic from its first record."""
    set_group_config(admin, access.group, share_auto_offset_reset="earliest")
    topic_id = topic_id_of(admin, access.topic)
    start_state(admin, access.group, topic_id)
    return ShareMember(alice, access.group, topic_id, "ann")


def test_a_share_fetch_that_waits_gets_no_records_after_its_right_was_revoked(
    access: TopicUser, admin: Wire, member: ShareMember, rights: dict[AclResourceType, Acl]
) -> None:
    member.fetch(max_wait_ms=0)
    member.wire.send(member.request(max_wait_ms=LONG_MS), member.version)
    node = access.broker.node
    assert node is not None
    wait_for(lambda: access.broker.on_loop(lambda: len(node.shares._delayed)), "it waits")
    revoke(access.broker, rights[AclResourceType.TOPIC])
    produce(admin, access.topic, batch(b"secret"))
    _, answer = member.wire.receive(APIS[ApiKey.SHARE_FETCH], member.version)
    assert isinstance(answer, ShareFetchResponse)
    (data,) = answer.responses[0].partitions
    assert (data.error_code, bytes(data.records or b"")) == (DENIED, b"")
    assert not data.acquired_records


def test_every_request_of_a_share_session_is_authorized(
    access: TopicUser, admin: Wire, member: ShareMember, rights: dict[AclResourceType, Acl]
) -> None:
    """Without READ on the topic neither fetches nor acknowledgements; without READ on the group
    no request at all."""
    produce(admin, access.topic, batch(b"a"))
    wait_for(member.acquire, "the record is acquired")
    revoke(access.broker, rights[AclResourceType.TOPIC])
    data = member.fetch((0, 0, [ACCEPT]))[0]
    assert (data.error_code, data.acknowledge_error_code) == (DENIED, DENIED)
    revoke(access.broker, rights[AclResourceType.GROUP])
    answer = member.wire.call(member.request(), ShareFetchResponse, member.version)
    assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_an_acknowledgement_without_read_on_the_topic_is_refused(
    access: TopicUser, admin: Wire, member: ShareMember, rights: dict[AclResourceType, Acl]
) -> None:
    produce(admin, access.topic, batch(b"a"))
    wait_for(member.acquire, "the record is acquired")
    revoke(access.broker, rights[AclResourceType.TOPIC])
    result = member.acknowledge((0, 0, [ACCEPT]))
    assert not isinstance(result, int)
    assert result.error_code == DENIED


@pytest.mark.parametrize("locks_only", [False, True])
def test_locks_need_describe_on_the_group_and_the_topic(
    access: TopicUser,
    alice: Wire,
    admin: Wire,
    member: ShareMember,
    rights: dict[AclResourceType, Acl],
    locks_only: bool,
) -> None:
    """Also in the request that brokers send to each other, because any client can send it."""
    asked = DescribeShareGroupOffsetsRequestTopic(topic_name=access.topic, partitions=[0])
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=access.group, topics=[asked])],
        include_locks=True,
        locks_only=locks_only,
    )

    def described() -> DescribeShareGroupOffsetsResponseGroup:
        return alice.call(request, DescribeShareGroupOffsetsResponse).groups[0]

    produce(admin, access.topic, batch(b"a"))
    wait_for(member.acquire, "the record is acquired")
    (partition,) = described().topics[0].partitions
    assert (partition.acquired_records, partition.locks[0].member_id) == (1, "ann")
    revoke(access.broker, rights[AclResourceType.TOPIC])
    (partition,) = described().topics[0].partitions
    assert (partition.error_code, partition.acquired_records, partition.locks) == (DENIED, -1, [])
    revoke(access.broker, rights[AclResourceType.GROUP])
    group = described()
    assert (group.error_code, group.topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
