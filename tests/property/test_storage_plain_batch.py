"""The fast append path accepts only batches that validation accepts unchanged."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.batch_header import HEADER_SIZE, crc_of
from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch
from headrace.storage.log.append_validation import AppendRules, plain_batch, validate
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin

NOW_MS = 1_700_000_000_000
CRC_AT, CRC_BYTES = 17, 4

configs = st.builds(
    LogConfig,
    cleanup_policy=st.sampled_from([frozenset({"delete"}), frozenset({"compact"})]),
    message_timestamp_type=st.sampled_from(["CreateTime", "LogAppendTime"]),
    compression_type=st.sampled_from(["producer", "gzip", "uncompressed"]),
    max_message_bytes=st.sampled_from([100, 1 << 20]),
    segment_bytes=st.sampled_from([120, 1 << 30]),
)


@st.composite
def batches(draw: st.DrawFn) -> bytearray:
    """A batch of one to three records, perhaps with damage that its checksum covers up."""
    records = [
        Record(
            index,
            NOW_MS + draw(st.sampled_from([0, 1 << 40])),
            b"k",
            b"v" * draw(st.integers(0, 50)),
        )
        for index in range(draw(st.integers(1, 3)))
    ]
    producer = draw(st.sampled_from([(-1, -1, -1), (5, 0, 0)]))
    batch = bytearray(
        build_batch(
            records,
            codec=draw(st.sampled_from(list(Codec))),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
    )
    for _ in range(draw(st.integers(0, 2))):
        batch[draw(st.integers(0, HEADER_SIZE - 1))] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        crc = crc_of(batch, 0, len(batch))
        batch[CRC_AT : CRC_AT + CRC_BYTES] = crc.to_bytes(CRC_BYTES, "big")
    return batch


@settings(max_examples=600, deadline=None)
@given(batches(), configs)
def test_a_plain_batch_passes_validation_unchanged(batch: bytearray, config: LogConfig) -> None:
    rules = AppendRules(config)
    header = plain_batch(batch, rules, NOW_MS)
    if header is not None:
        before = bytes(batch)
        assert validate(batch, rules, BatchOrigin.CLIENT, NOW_MS, 0) == (batch, [(0, header)])
        assert bytes(batch) == before


def test_an_ordinary_batch_is_plain() -> None:
    for codec in Codec:
        batch = bytearray(build_batch([Record(0, NOW_MS, b"k", b"v")], codec=codec))
        assert plain_batch(batch, AppendRules(LogConfig()), NOW_MS) is not None
