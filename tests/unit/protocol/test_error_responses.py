"""Every request has an error response in every version, with the code where Kafka puts it."""

from typing import Any

import pytest

from headrace.broker.network.api_handlers import HANDLERS
from headrace.protocol.api import APIS, ApiKey, ApiSpec
from headrace.protocol.error_responses import error_response
from headrace.protocol.errors import ErrorCode
from headrace.protocol.layout import Field, fields_of
from headrace.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from headrace.protocol.messages.fetch import FetchRequest, FetchResponse
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.offset_fetch import OffsetFetchResponse
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.protocol.struct import Struct

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER
SAMPLES = {"string": "sample", "bytes": b"", "records": b""}


def sample(cls: type[Struct], version: int) -> Struct:
    """A request with one element in each array."""
    values = {
        field.name: sample_value(field, version)
        for field in fields_of(cls)
        if field.is_in(version) and (field.array or field.struct is None)
    }
    return cls(**values)


def sample_value(field: Field, version: int) -> Any:
    value: Any
    if field.struct is not None:
        value = sample(field.struct, version)
    else:
        assert field.wire is not None
        if field.wire.kind == "fixed":
            value = bytes(16) if field.wire.code == "16s" else field.wire.code == "?" or 3
        else:
            value = SAMPLES[field.wire.kind]
    return [value] if field.array else value


def codes_in(message: Struct) -> list[int]:
    found = []
    for name in message._declared:
        value = getattr(message, name)
        if name in ("error_code", "partition_error_code"):
            found.append(value)
        for inner in value if isinstance(value, list) else ():
            if isinstance(inner, Struct):
                found += codes_in(inner)
    return [code for code in found if code]


def versions() -> list[Any]:
    return [
        pytest.param(APIS[key], version, id=f"{APIS[key].name}-{version}")
        for key in HANDLERS
        for version in range(APIS[key].min_version, APIS[key].max_version + 1)
        if key is not ApiKey.METADATA  # answered by its own handler
    ]


@pytest.mark.parametrize(("spec", "version"), versions())
def test_the_error_response_has_the_code_and_can_be_encoded(spec: ApiSpec, version: int) -> None:
    request = sample(spec.request, version)
    answer = error_response(spec, request, version, CODE)
    assert answer is not None
    sent = spec.response.decode(answer.encode(version), version)
    assert codes_in(sent) == [CODE]


def test_a_produce_fails_partition_by_partition() -> None:
    spec = APIS[ApiKey.PRODUCE]
    request = ProduceRequest(
        acks=-1,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[PartitionProduceData(index=4), PartitionProduceData(index=7)],
            )
        ],
    )
    answer = error_response(spec, request, 9, CODE)
    assert isinstance(answer, ProduceResponse)
    (topic,) = answer.responses
    assert topic.name == "t"
    assert [(one.index, one.error_code, one.base_offset) for one in topic.partition_responses] == [
        (4, CODE, -1),
        (7, CODE, -1),
    ]


def test_find_coordinator_fails_for_each_key() -> None:
    spec = APIS[ApiKey.FIND_COORDINATOR]
    many = error_response(spec, FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4, CODE)
    assert isinstance(many, FindCoordinatorResponse)
    assert [(one.key, one.error_code) for one in many.coordinators] == [("a", CODE), ("b", CODE)]
    one = error_response(spec, FindCoordinatorRequest(key="a"), 3, CODE)
    assert isinstance(one, FindCoordinatorResponse)
    assert one.error_code == CODE


@pytest.mark.parametrize(
    ("version", "place"), [(1, "partition"), (2, "top"), (7, "top"), (8, "group"), (10, "group")]
)
def test_offset_fetch_fails_in_the_outermost_field_of_the_version(version: int, place: str) -> None:
    spec = APIS[ApiKey.OFFSET_FETCH]
    answer = error_response(spec, sample(spec.request, version), version, CODE)
    assert isinstance(answer, OffsetFetchResponse)
    assert (answer.error_code == CODE) == (place == "top")
    assert [group.error_code for group in answer.groups] == ([CODE] if place == "group" else [])
    partitions = [one for topic in answer.topics for one in topic.partitions]
    assert [one.error_code for one in partitions] == ([CODE] if place == "partition" else [])


def test_only_a_session_error_fails_a_whole_fetch() -> None:
    spec = APIS[ApiKey.FETCH]
    request = sample(FetchRequest, 12)
    session = error_response(spec, request, 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert isinstance(session, FetchResponse)
    assert session.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert session.responses == []
    moved = error_response(spec, request, 12, CODE)
    assert isinstance(moved, FetchResponse)
    assert moved.error_code == 0
    assert moved.responses[0].partitions[0].error_code == CODE


def test_an_empty_request_has_no_error_response() -> None:
    spec = APIS[ApiKey.PRODUCE]
    assert error_response(spec, ProduceRequest(acks=1), 9, CODE) is None


def test_a_failed_quota_change_repeats_its_entity() -> None:
    """Kafka's clients find the result of an entity by its parts."""
    spec = APIS[ApiKey.ALTER_CLIENT_QUOTAS]
    request = sample(AlterClientQuotasRequest, 1)
    answer = error_response(spec, request, 1, CODE)
    assert isinstance(answer, AlterClientQuotasResponse)
    (entry,) = answer.entries
    assert entry.error_code == CODE
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("sample", "sample")]
