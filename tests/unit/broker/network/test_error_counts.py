"""The error codes of responses, found in their structure."""

from headrace.broker.network.error_counts import error_counter
from headrace.protocol.api import APIS
from headrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartitionData,
    FetchResponse,
)
from headrace.protocol.messages.metadata import MetadataResponse
from headrace.protocol.messages.produce import ProduceResponse


def test_each_code_of_a_response_counts() -> None:
    partitions = [FetchPartitionData(error_code=code) for code in (0, 3, 3)]
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)])
    counts: dict[int, int] = {}
    count = error_counter(FetchResponse)
    assert count is not None
    count(response, counts)
    assert counts == {0: 2, 3: 2}  # the response's own code is NONE, too


def test_an_empty_response_has_only_its_own_code() -> None:
    counts: dict[int, int] = {}
    for cls in (FetchResponse, ProduceResponse, MetadataResponse):
        count = error_counter(cls)
        assert count is not None
        count(cls(), counts)
    assert counts == {0: 2}  # Produce has codes for partitions only


def test_every_response_of_the_broker_can_be_counted() -> None:
    """A response with its defaults has null arrays, empty ones and shared structs."""
    for spec in APIS.values():
        count = error_counter(spec.response)
        if count is not None:
            count(spec.response(), {})
