"""Well-formed requests with empty, null, zero, -1 and maximum values are answered or rejected.

Every served API in every version gets each of them. The answer must be readable, or the connection
must end; another client must not notice.
"""

import struct
from collections.abc import Callable

import pytest

from headrace.broker.network.api_handlers import HANDLERS
from headrace.protocol.api import APIS, ApiKey, ApiSpec
from headrace.protocol.header import RequestHeader
from headrace.protocol.messages.produce import ProduceRequest
from support.wire.batches import batch, fetch, fetch_request, produce, values_of
from support.wire.connection import CLIENT_ID, ConnectionEnded, Wire, frame, request_frame
from support.wire.minimal_requests import VARIANTS, requests

SPECS = [APIS[key] for key in sorted(HANDLERS)]


@pytest.fixture
def healthy(wire: Wire, topic: str) -> Callable[[], None]:
    """Another client's connection, which must not be affected."""
    count = 0

    def check() -> None:
        nonlocal count
        value = b"still here %d" % count
        assert produce(wire, topic, batch(value)).base_offset == count
        assert values_of(fetch(wire, fetch_request(topic, count)).records) == [value]
        count += 1

    check()
    return check


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_version_of_every_api_survives(
    spec: ApiSpec, variant: str, connect: Callable[[], Wire], healthy: Callable[[], None]
) -> None:
    client = connect()
    client.socket.settimeout(8)
    for version in range(spec.min_version, spec.max_version + 1):
        request = dict(requests(spec, version))[variant]
        if isinstance(request, ProduceRequest):
            request.acks = request.acks or 1  # 0 is not answered
        try:
            sent = client.send(request, version)
            correlation_id, _ = client.receive(spec, version)
            assert correlation_id == sent
        except (ConnectionEnded, BrokenPipeError, ConnectionResetError):
            client = connect()
    healthy()


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_truncated_body_closes_the_connection(
    spec: ApiSpec, connect: Callable[[], Wire], healthy: Callable[[], None]
) -> None:
    version = spec.max_version
    whole = request_frame(dict(requests(spec, version))["zero"], version)[4:]
    header = RequestHeader(
        request_api_key=spec.key,
        request_api_version=version,
        correlation_id=1,
        client_id=CLIENT_ID,
    ).encode(spec.request_header_version(version))
    for cut in {len(header), len(header) + 1, (len(header) + len(whole)) // 2, len(whole) - 1}:
        if cut < len(whole):
            client = connect()
            client.send_bytes(frame(whole[:cut]))
            assert client.ends(), cut
    healthy()


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_counts_larger_than_the_body_close_the_connection(
    spec: ApiSpec, connect: Callable[[], Wire], healthy: Callable[[], None]
) -> None:
    version = spec.max_version
    header = RequestHeader(
        request_api_key=spec.key,
        request_api_version=version,
        correlation_id=1,
        client_id=CLIENT_ID,
    ).encode(spec.request_header_version(version))
    client = connect()
    client.send_bytes(frame(header + b"\xfe\xff\xff\xff\x07" * 12))
    assert client.ends()
    healthy()


@pytest.mark.parametrize("count", [20_000_000, 2**31 - 1])
def test_a_count_of_millions_of_tagged_fields_closes_the_connection(
    count: int, connect: Callable[[], Wire], healthy: Callable[[], None]
) -> None:
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1)
    in_header = connect()
    in_header.send_bytes(frame(head + _varint(count) + b"\0" * 64))
    assert in_header.ends()
    in_body = connect()
    in_body.send_bytes(frame(head + b"\0" + b"\x02a\x02b" + _varint(count) + b"\0" * 64))
    assert in_body.ends()
    healthy()


def test_unknown_tagged_fields_are_skipped(wire: Wire) -> None:
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1)
    tagged = b"\x02" + b"\x63\x03abc" + b"\x64\x00"
    wire.send_bytes(frame(head + tagged + b"\x02a\x02b" + tagged))
    correlation_id, _ = wire.receive(APIS[ApiKey.API_VERSIONS], 3)
    assert correlation_id == 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
