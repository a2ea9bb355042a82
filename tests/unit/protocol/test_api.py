"""The table of APIs, headers and error codes."""

import subprocess
import sys

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode, MalformedMessage
from headrace.protocol.header import (
    RequestHeader,
    ResponseHeader,
    read_request_header,
    response_header,
)
from headrace.protocol.layout import fields_of, least_size
from headrace.protocol.struct import Struct


def test_every_key_has_a_spec_whose_messages_have_its_versions() -> None:
    assert set(APIS) == set(ApiKey)
    for spec in APIS.values():
        for message in (spec.request, spec.response):
            assert message.versions is not None
            first, last = message.versions
            assert first == spec.min_version
            # A message may have one more version, which is unstable and not supported.
            assert last - spec.max_version in (0, 1)
            assert message.flexible_since == spec.flexible_since


def test_only_the_unstable_version_of_init_producer_id_is_disabled() -> None:
    held_back = {
        spec.name
        for spec in APIS.values()
        if spec.request.versions != (spec.min_version, spec.max_version)
    }
    assert held_back == {"InitProducerId"}


def test_only_produce_is_advertised_below_its_minimum_version() -> None:
    produce = APIS[ApiKey.PRODUCE]
    assert (produce.advertised_min, produce.min_version, produce.max_version) == (0, 3, 13)
    assert not produce.serves(2)
    assert produce.serves(3)
    others = [spec for spec in APIS.values() if spec.advertised_min != spec.min_version]
    assert others == [produce]


def test_no_array_element_can_be_empty_on_the_wire() -> None:
    # Otherwise a count could not be checked against the remaining bytes.
    def check(cls: type[Struct], version: int, flexible: bool) -> None:
        for field in fields_of(cls):
            if field.struct is not None and field.is_in(version):
                assert not field.array or least_size(field.struct, version, flexible) > 0
                check(field.struct, version, flexible)

    for spec in APIS.values():
        for message in (spec.request, spec.response):
            assert message.versions is not None
            for version in range(message.versions[0], message.versions[1] + 1):
                check(message, version, version >= message.flexible_since)


def test_the_table_imports_no_message() -> None:
    code = (
        "import sys, headrace.protocol.api;"
        "sys.exit(any(m.startswith('headrace.protocol.messages') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_request_header_is_read_in_the_version_that_its_api_uses() -> None:
    old = bytes.fromhex("0003 0008 0000002a 0001 61".replace(" ", ""))
    header, pos = read_request_header(b"??" + old + b"body", 2, 2 + len(old) + 4)
    assert pos == 2 + len(old)
    assert header == RequestHeader(
        request_api_key=3, request_api_version=8, correlation_id=42, client_id="a"
    )
    flexible = bytes.fromhex("0003 0009 0000002a ffff 01 05 01 00".replace(" ", ""))
    header, pos = read_request_header(flexible, 0, len(flexible))
    assert (header.client_id, pos) == (None, len(flexible))


def test_an_unsupported_version_still_has_a_readable_header() -> None:
    data = RequestHeader(request_api_key=18, request_api_version=99, correlation_id=7).encode(2)
    header, pos = read_request_header(data, 0, len(data))
    assert (header.request_api_version, header.correlation_id, pos) == (99, 7, len(data))


@pytest.mark.parametrize("data", [b"", b"\x00\x03\x00", b"\x00\x04" + bytes(9), b"\xff" * 12])
def test_a_short_header_or_an_unknown_api_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_request_header(data, 0, len(data))


def test_a_response_header_has_tags_in_flexible_versions_but_never_for_api_versions() -> None:
    assert response_header(ApiKey.METADATA, 8, -2) == b"\xff\xff\xff\xfe"
    assert response_header(ApiKey.METADATA, 9, 5) == ResponseHeader(correlation_id=5).encode(1)
    assert response_header(ApiKey.API_VERSIONS, 4, 5) == b"\0\0\0\5"


def test_error_codes_have_numbers_and_messages() -> None:
    assert len(ErrorCode) == 135
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))
    assert ErrorCode(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.MESSAGE_TOO_LARGE.retriable
    assert sum(code.retriable for code in ErrorCode) == 32
    assert all(code.message.endswith(".") for code in ErrorCode)
