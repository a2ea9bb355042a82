"""ApiVersions and all API versions: advertised, served and rejected."""

import struct

import pytest

from headrace.broker.handlers.api_versions import TELEMETRY_APIS
from headrace.broker.network.api_handlers import HANDLERS
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.messages.metadata import MetadataRequest
from support.wire.batches import batch
from support.wire.connection import Wire, frame, request_frame

API_VERSIONS = APIS[ApiKey.API_VERSIONS]


def client() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")


@pytest.mark.parametrize("version", range(API_VERSIONS.max_version + 1))
def test_every_served_api_is_advertised_with_kafkas_range(wire: Wire, version: int) -> None:
    answer = wire.call(client(), ApiVersionsResponse, version)
    told = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert answer.error_code == 0
    for key in HANDLERS:
        if APIS[key].for_members or key in TELEMETRY_APIS:
            assert key not in told  # nothing for clients; there is no client-metrics resource
            continue
        spec = APIS[key]
        assert told[key] == (spec.advertised_min, spec.max_version), spec.name


def test_an_unknown_version_is_answered_in_version_0(wire: Wire) -> None:
    head = struct.pack(">hhih", API_VERSIONS.key, 99, 7, -1)
    wire.send_bytes(frame(head + b"\x00\x01\x02what a future client may send"))
    body = wire.receive_frame()
    assert body[:4] == struct.pack(">i", 7)
    answer = ApiVersionsResponse.decode(body[4:], 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    told = {api.api_key: api.max_version for api in answer.api_keys}
    assert told[API_VERSIONS.key] == API_VERSIONS.max_version
    # The client falls back on the same connection.
    assert wire.call(client(), ApiVersionsResponse, 0).error_code == 0


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a b", "1"), ("ok", "-1-"), ("ok", "")])
def test_an_invalid_client_name_is_an_invalid_request(wire: Wire, name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    answer = wire.call(request, ApiVersionsResponse, 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_finalized_features_are_returned(wire: Wire) -> None:
    answer = wire.call(client(), ApiVersionsResponse, 4)
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    supported = {feature.name for feature in answer.supported_features}
    assert levels["metadata.version"] > 0
    assert levels["transaction.version"] == 2  # Java producers use transactions v2 only then
    assert {"group.version", "share.version"} <= supported
    assert answer.finalized_features_epoch >= 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_0_to_2_are_advertised_but_rejected(wire: Wire, topic: str, version: int) -> None:
    acks, timeout_ms = -1, 5000
    records = batch(b"a")
    body = struct.pack(">hii", acks, timeout_ms, 1)
    body += struct.pack(">h", len(topic)) + topic.encode()
    body += struct.pack(">iii", 1, 0, len(records)) + records
    head = struct.pack(">hhih", ApiKey.PRODUCE, version, 1, -1)
    wire.send_bytes(frame(head + body))
    assert wire.ends()


@pytest.mark.parametrize("key", sorted(HANDLERS))
def test_an_unsupported_version_closes_the_connection(wire: Wire, key: ApiKey) -> None:
    if key is ApiKey.API_VERSIONS:
        pytest.skip("answered in version 0")
    # The body does not matter: the broker cannot read this version.
    wire.send_bytes(frame(struct.pack(">hhih", key, APIS[key].max_version + 1, 1, -1) + b"\0\0"))
    assert wire.ends()


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 58, 999, 0x7FFF])
def test_an_unsupported_api_key_closes_the_connection(wire: Wire, key: int) -> None:
    wire.send_bytes(frame(struct.pack(">hhih", key, 0, 1, -1)))
    assert wire.ends()


def test_requests_on_one_connection_are_answered_in_order(wire: Wire) -> None:
    sent = [
        request_frame(MetadataRequest(topics=[]), 12, correlation_id=number)
        for number in range(200)
    ]
    wire.send_bytes(b"".join(sent))
    got = [wire.receive(APIS[ApiKey.METADATA], 12)[0] for _ in sent]
    assert got == list(range(200))


def test_a_client_id_can_be_null_empty_or_unusual(wire: Wire) -> None:
    for client_id in (None, "", "ünï\u2028 \x00", "x" * 30_000):
        wire.send_bytes(request_frame(client(), 3, correlation_id=5, client_id=client_id))
        assert wire.receive(API_VERSIONS, 3)[0] == 5
