"""Codecs: the formats of other clients are read, within the memory limit."""

import gzip
import subprocess
import sys
import tracemalloc
from itertools import pairwise

import cramjam
import pytest

from headrace.records.codec import Codec, compress, decompress
from headrace.records.errors import CorruptCompression, DecompressedTooLarge, RecordError

DATA = b"".join(b"line %d of something that repeats\n" % index for index in range(4_000))
COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", DATA], ids=["empty", "one byte", "many blocks"])
def test_what_is_compressed_decompresses(codec: Codec, data: bytes) -> None:
    packed = compress(codec, memoryview(data))
    assert decompress(codec, memoryview(packed), max_bytes=len(DATA)) == data


@pytest.mark.parametrize("codec", Codec)
def test_the_decompression_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, DATA)
    assert len(decompress(codec, packed, max_bytes=len(DATA))) == len(DATA)
    with pytest.raises(DecompressedTooLarge) as caught:
        decompress(codec, packed, max_bytes=len(DATA) - 1)
    assert caught.value.max_bytes == len(DATA) - 1


@pytest.mark.parametrize("codec", COMPRESSING)
def test_invalid_compressed_bytes_are_refused(codec: Codec) -> None:
    for junk in (b"\xff" * 40, b"\x00" * 3, bytes(range(200))):
        with pytest.raises(RecordError):
            decompress(codec, junk, max_bytes=1_000_000)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_truncated_stream_is_refused(codec: Codec) -> None:
    packed = compress(codec, DATA)
    with pytest.raises(CorruptCompression):
        decompress(codec, packed[: len(packed) // 2], max_bytes=1_000_000)


def test_several_gzip_members_are_read() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Codec.GZIP, packed, max_bytes=100) == b"one two"


def test_snappy_is_written_in_xerials_framing_with_blocks_java_can_take() -> None:
    packed = compress(Codec.SNAPPY, DATA)
    assert packed.startswith(XERIAL)


def test_raw_snappy_is_read_too() -> None:
    packed = bytes(cramjam.snappy.compress_raw(DATA))
    assert decompress(Codec.SNAPPY, packed, max_bytes=len(DATA)) == DATA


def test_several_xerial_streams_are_read() -> None:
    packed = compress(Codec.SNAPPY, b"one ") + compress(Codec.SNAPPY, b"two")
    assert decompress(Codec.SNAPPY, packed, max_bytes=100) == b"one two"


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 100])
def test_a_snappy_block_that_does_not_fit_its_frame_is_refused(length: int) -> None:
    packed = XERIAL + length.to_bytes(4, "big", signed=True) + b"\x01\x00x"
    with pytest.raises(CorruptCompression):
        decompress(Codec.SNAPPY, packed, max_bytes=1_000)


def test_a_snappy_block_cannot_claim_an_impossible_length() -> None:
    # Four bytes that announce 200 MB must not make us allocate them, whatever the cap.
    tracemalloc.start()
    try:
        with pytest.raises(CorruptCompression):
            decompress(Codec.SNAPPY, b"\xff\xff\xff\x5f", max_bytes=2**31)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_lz4_blocks_are_independent_because_java_refuses_others() -> None:
    packed = compress(Codec.LZ4, DATA)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0x20


def test_linked_lz4_blocks_are_read() -> None:
    packed = bytes(cramjam.lz4.compress(DATA))
    assert not packed[4] & 0x20
    assert decompress(Codec.LZ4, packed, max_bytes=len(DATA)) == DATA


def test_zstd_streams_without_a_content_size_are_read() -> None:
    stream = cramjam.zstd.Compressor()
    for start, stop in pairwise([0, 10_000, 20_000, len(DATA)]):
        stream.compress(DATA[start:stop])
    packed = bytes(stream.finish())
    assert packed[4] >> 6 == 0
    assert decompress(Codec.ZSTD, packed, max_bytes=len(DATA)) == DATA


_BOMB = """
import resource, sys
import cramjam
from headrace.records.codec import Codec, decompress
from headrace.records.errors import DecompressedTooLarge

codec, cap = Codec[sys.argv[1]], 8 * 1024 * 1024
chunk = bytes(1024 * 1024)
if codec is Codec.SNAPPY:
    block = bytes(cramjam.snappy.compress_raw(chunk))
    framed = len(block).to_bytes(4, "big") + block
    bomb = bytes.fromhex("82534e4150505900") + b"\\0\\0\\0\\1" * 2 + framed * 1024
else:
    # Sixteen streams of 64 MiB, each a bomb itself: quicker to make than one of a gigabyte.
    stream = getattr(cramjam, codec.name.lower()).Compressor()
    for _ in range(64):
        stream.compress(chunk)
    bomb = bytes(stream.finish()) * 16
    del stream
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")  # forget the peak so far, which was ours
before = resident()
try:
    decompress(codec, bomb, max_bytes=cap)
except DecompressedTooLarge:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(peak - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_decompression_bomb_is_refused_within_the_memory_limit(codec: Codec) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _BOMB, codec.name], capture_output=True, text=True, check=True
    )
    # The cap of 8 MiB, a codec's window and the interpreter's own noise.
    assert int(run.stdout) <= 14 * 1024
