"""Declarations: constructors, defaults, equality, versions, and what a version cannot carry."""

import pytest

from headrace.protocol.errors import ErrorCode, MalformedMessage, ProtocolError, UnsupportedVersion
from headrace.protocol.messages.create_topics import CreateTopicsRequest
from headrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from headrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchLeaderIdAndEpoch,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceLeaderIdAndEpoch,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)


def test_a_constructor_takes_keywords_and_fills_in_kafkas_defaults() -> None:
    made = PartitionProduceResponse(index=3, base_offset=5)
    assert (made.index, made.error_code, made.base_offset) == (3, 0, 5)
    assert (made.log_append_time_ms, made.log_start_offset) == (-1, -1)
    assert made.record_errors == []
    assert made.error_message is None


def test_a_constructor_refuses_unknown_names_and_positional_arguments() -> None:
    with pytest.raises(TypeError, match="partition"):
        PartitionProduceResponse(partition=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        PartitionProduceResponse(3)  # type: ignore[misc]


def test_two_messages_never_share_a_default_list() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchTopic())
    assert second.topics == []


def test_a_shared_default_struct_cannot_be_changed_in_place() -> None:
    data = FetchPartitionData()
    with pytest.raises(AttributeError, match="assign a new FetchLeaderIdAndEpoch"):
        data.current_leader.leader_id = 4
    data.current_leader = FetchLeaderIdAndEpoch(leader_id=4)
    assert FetchPartitionData().current_leader == FetchLeaderIdAndEpoch()


def test_an_unknown_field_cannot_be_assigned() -> None:
    with pytest.raises(AttributeError):
        FetchRequest().max_wait = 3  # type: ignore[attr-defined]


def test_messages_are_equal_by_value_and_have_a_repr() -> None:
    assert FetchTopic(topic="a") == FetchTopic(topic="a")
    assert FetchTopic(topic="a") != FetchTopic(topic="b")
    assert FetchTopic(topic="a") != "a"
    assert repr(FetchLeaderIdAndEpoch(leader_id=1)) == (
        "FetchLeaderIdAndEpoch(leader_id=1, leader_epoch=-1)"
    )
    with pytest.raises(TypeError):
        hash(FetchTopic())


def test_a_field_that_a_version_lacks_reads_as_its_default() -> None:
    data = FetchRequest(replica_id=7, session_id=0).encode(4)
    found = FetchRequest.decode(data, 4)
    assert found.replica_id == 7
    assert (found.session_epoch, found.rack_id, found.forgotten_topics_data) == (-1, "", [])


def test_an_ignorable_field_is_dropped_by_versions_without_it() -> None:
    assert FetchRequest(rack_id="r1").encode(4) == FetchRequest().encode(4)


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (FetchRequest(replica_id=3), 15),
        (MetadataRequest(allow_auto_topic_creation=False), 3),
        (
            ProduceResponse(
                responses=[
                    TopicProduceResponse(
                        partition_responses=[
                            PartitionProduceResponse(
                                current_leader=ProduceLeaderIdAndEpoch(leader_id=1)
                            )
                        ]
                    )
                ]
            ),
            9,
        ),
    ],
    ids=["a field that ended", "a field to come", "a tagged struct to come"],
)
def test_a_value_that_a_version_cannot_carry_is_refused(
    message: FetchRequest | MetadataRequest | ProduceResponse, version: int
) -> None:
    with pytest.raises(UnsupportedVersion, match="cannot be written in version"):
        message.encode(version)


def test_versions_that_a_message_does_not_have_are_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="versions 4 to 18, not 19"):
        FetchRequest.decode(b"", 19)
    with pytest.raises(UnsupportedVersion, match="not 3"):
        FetchRequest().encode(3)
    assert UnsupportedVersion.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_part_of_a_message_has_no_versions_of_its_own() -> None:
    with pytest.raises(TypeError, match="part of a message"):
        FetchTopic().encode(4)


def test_null_is_refused_before_the_version_that_allows_it() -> None:
    assert MetadataRequest.decode(MetadataRequest(topics=None).encode(1), 1).topics is None
    with pytest.raises(ProtocolError, match="MetadataRequest v0"):
        MetadataRequest(topics=None).encode(0)
    with pytest.raises(MalformedMessage):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)
    with pytest.raises(ProtocolError):
        MetadataRequest(topics=[MetadataRequestTopic(name=None)]).encode(9)


def test_a_nullable_struct_may_be_null() -> None:
    request = DescribeTopicPartitionsRequest(response_partition_limit=9, cursor=None)
    assert DescribeTopicPartitionsRequest.decode(request.encode(0), 0) == request


@pytest.mark.parametrize("version", [4, 7])
def test_a_value_that_does_not_fit_its_type_is_refused(version: int) -> None:
    for timeout_ms in (1 << 31, "soon", None):
        message = CreateTopicsRequest(timeout_ms=timeout_ms)  # type: ignore[arg-type]
        with pytest.raises(ProtocolError, match=f"CreateTopicsRequest v{version}"):
            message.encode(version)


@pytest.mark.parametrize("version", [8, 9])
def test_a_string_longer_than_an_int16_length_is_refused(version: int) -> None:
    longest = ProduceRequest(transactional_id="x" * 0x7FFF)
    assert ProduceRequest.decode(longest.encode(version), version) == longest
    with pytest.raises(ProtocolError, match="transactional_id is too long"):
        ProduceRequest(transactional_id="x" * 0x8000).encode(version)
    with pytest.raises(ProtocolError):
        ProduceRequest(transactional_id="\ud800").encode(version)


def test_records_are_read_as_a_view_of_the_callers_buffer() -> None:
    batches = bytes(range(100))
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(records=batches)])
        ]
    )
    frame = bytearray(request.encode(9))
    records = ProduceRequest.decode(frame, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records == batches
    assert records.obj is frame


def test_records_are_written_without_a_copy() -> None:
    batches = memoryview(bytearray(b"batches"))
    response = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[FetchPartitionData(records=batches)])]
    )
    out: list[bytes | bytearray | memoryview] = []
    response.write(12, out)
    assert any(chunk is batches for chunk in out)


def test_text_that_is_not_utf_8_is_replaced_and_not_refused() -> None:
    data = ProduceRequest(transactional_id="abc").encode(9).replace(b"abc", b"a\xffc")
    assert ProduceRequest.decode(data, 9).transactional_id == "a\ufffdc"
