"""The reader checks every claimed length against the bytes that remain."""

import pytest

from headrace.protocol.errors import MalformedMessage
from headrace.protocol.layout import least_size
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.fetch import FetchRequest, FetchTopic
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.protocol.reading import MAX_REQUEST_ELEMENTS, MAX_TAGS_PER_STRUCT, read_uvarint
from headrace.protocol.struct import Struct
from headrace.protocol.writing import write_uvarint

HUGE_COUNT = b"\xff\xff\xff\xff\x0f"


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16383, 16384, 2**21, 2**28, 2**32 - 1])
def test_a_varint_round_trips(value: int) -> None:
    data = write_uvarint(value)
    assert read_uvarint(data + b"\xff", 0) == (value, len(data))


@pytest.mark.parametrize("data", [b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x1f"])
def test_a_varint_of_more_than_32_bits_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage, match="more than 32 bits"):
        read_uvarint(data, 0)


@pytest.mark.parametrize(
    ("cls", "version", "data", "why"),
    [
        (MetadataRequest, 12, HUGE_COUNT, "topics claims 4294967294 elements, 0 bytes remain"),
        (MetadataRequest, 1, b"\x7f\xff\xff\xff", "topics claims 2147483647 elements"),
        (MetadataRequest, 1, b"\xff\xff\xff\xfe", "topics has the length -2"),
        (MetadataRequest, 9, b"\x05\x01\x02", "topics claims 4 elements, 2 bytes remain"),
        (SaslAuthenticateRequest, 0, b"\x7f\xff\xff\xff", "auth_bytes has the length 2147483647"),
        (SaslAuthenticateRequest, 0, b"\xff\xff\xff\xff", "auth_bytes has the length -1"),
        (SaslAuthenticateRequest, 2, b"\0", "auth_bytes is null"),
        (ApiVersionsRequest, 3, b"\x02a" + HUGE_COUNT, "client_software_version has the length"),
        (ApiVersionsRequest, 3, b"\x01\x01\x80\xda\xc4\x09", "20000000 tagged fields claimed"),
        (ApiVersionsRequest, 3, b"\x01\x01\x01\x07\x7f", "ends 127 bytes past the message"),
        (ApiVersionsRequest, 3, b"\x01", "cut short near byte 1 of 1"),
        (ApiVersionsRequest, 3, b"", "cut short near byte 0 of 0"),
    ],
)
def test_a_claimed_length_beyond_the_bytes_is_malformed(
    cls: type[Struct], version: int, data: bytes, why: str
) -> None:
    with pytest.raises(MalformedMessage, match=why) as caught:
        cls.decode(data, version)
    assert f"{cls.__name__} v{version}" in str(caught.value)


def test_a_string_longer_than_an_int16_length_is_malformed() -> None:
    longest = write_uvarint(0x8000) + b"x" * 0x7FFF + b"\x01\x00"
    assert len(ApiVersionsRequest.decode(longest, 3).client_software_name) == 0x7FFF
    too_long = write_uvarint(0x8001) + b"x" * 0x8000 + b"\x01\x00"
    with pytest.raises(MalformedMessage, match="client_software_name has the length 32768"):
        ApiVersionsRequest.decode(too_long, 3)


def test_a_large_frame_of_tiny_elements_is_refused() -> None:
    count = MAX_REQUEST_ELEMENTS + 1
    data = count.to_bytes(4, "big") + b"\0\0" * count
    with pytest.raises(MalformedMessage, match=f"topics claims {count} elements"):
        MetadataRequest.decode(data, 0)
    assert len(MetadataRequest.decode(b"\0\0\0\2" + b"\0\0" * 2, 0).topics or ()) == 2


def test_a_large_frame_of_tagged_fields_is_refused() -> None:
    count = MAX_TAGS_PER_STRUCT + 1
    data = b"\x01\x01" + write_uvarint(count) + b"\x09\x00" * count
    with pytest.raises(MalformedMessage, match=f"{count} tagged fields claimed"):
        ApiVersionsRequest.decode(data, 3)


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    data = plain.encode(3)
    assert data.endswith(b"\0")
    tagged = data[:-1] + b"\x02" + b"\x05\x03abc" + b"\xff\x01\x00"
    assert ApiVersionsRequest.decode(tagged, 3) == plain


def test_unknown_tags_beside_known_ones_are_skipped() -> None:
    request = FetchRequest(cluster_id="c", topics=[])
    data = request.encode(12)
    known = b"\x01\x00\x02\x02c"
    assert data.endswith(known)
    assert FetchRequest.decode(data[:-5] + b"\x02\x00\x02\x02c\x09\x01z", 12) == request


def test_a_known_tag_whose_size_is_wrong_is_malformed() -> None:
    data = FetchRequest(cluster_id="c").encode(12)
    with pytest.raises(MalformedMessage, match="cluster_id is not as long as its tag says"):
        FetchRequest.decode(data[:-3] + b"\x03\x02c\x00", 12)
    with pytest.raises(MalformedMessage, match="runs past the end"):
        FetchRequest.decode(data[:-3] + b"\x7f\x02c", 12)


def test_nothing_past_the_end_is_read() -> None:
    data = MetadataRequest(topics=[]).encode(1)
    with pytest.raises(MalformedMessage):
        MetadataRequest.read(data + b"\0" * 20, 0, len(data) - 1, 1)
    with pytest.raises(MalformedMessage):
        MetadataRequest.read(b"\0\0\0\1", 0, 10, 1)


def test_the_least_size_is_that_of_an_empty_struct() -> None:
    assert least_size(FetchTopic, 4, False) == 2 + 4
    assert least_size(FetchTopic, 12, True) == 1 + 1 + 1
    assert least_size(FetchTopic, 13, True) == 16 + 1 + 1
