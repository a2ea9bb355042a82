"""Reads a task's records as Arrow data: a thread fetches chunks ahead, the caller decodes them.

While Spark consumes one chunk of Arrow data, the thread fetches the next one. Memory is bounded by
the chunks that are ready, plus the one that is being decoded.

Guarantees: every offset of a range is read once, in order. The reader follows a partition to its
new leader until the timeout for an answer. If retention or a recreated topic has removed an offset,
the reader raises an error. It skips the offset only if the caller allows data loss.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.chunk_fetching import ChunkFetching
from headrace.pipeline.source.fetcher import Chunk
from headrace.pipeline.source.settings import BEHIND_DAMAGE, ReadFailed, ReadSettings
from headrace.records.arrow.columns import HEADER, RecordArrays
from headrace.records.arrow.decoder import Damaged, DamagedBatch, Decoded, decode_batches
from headrace.records.batch_header import NO_TIMESTAMP

MAX_DAMAGE_BYTES: Final = 16 << 20
"""The number of bytes of a damaged batch that are kept for inspection."""


def read_range(
    wanted: OffsetRange, settings: ReadSettings, *, fail_on_data_loss: bool = True
) -> Iterator[RecordArrays]:
    """The records of the range in chunks; raises `ReadFailed`.

    If the settings ask for it, a damaged batch becomes a chunk of one row with the batch's bytes as
    its value.
    """
    read = read_ranges([wanted], settings, fail_on_data_loss=fail_on_data_loss)
    try:
        for _, records in read:
            yield records
    finally:
        read.close()


def read_ranges(
    ranges: Sequence[OffsetRange], settings: ReadSettings, *, fail_on_data_loss: bool = True
) -> Generator[tuple[TopicPartition, RecordArrays], None, None]:
    """Like `read_range`, for several ranges in order, over the same connections."""
    fetching = ChunkFetching(
        ranges, settings, fail_on_data_loss=fail_on_data_loss, room=_uninitialized_memory
    )
    try:
        for wanted, chunk in fetching:
            for decoded in _decoded(chunk, wanted, settings):
                if len(decoded.records):
                    yield wanted.topic_partition, decoded.records
                for each in decoded.damaged:
                    yield (
                        wanted.topic_partition,
                        _as_record(each, with_headers=settings.with_headers),
                    )
    finally:
        fetching.stop()


def _decoded(chunk: Chunk, wanted: OffsetRange, settings: ReadSettings) -> Iterator[Decoded]:
    try:
        yield from decode_batches(
            chunk.data,
            start=chunk.start,
            end=min(chunk.end, wanted.end),
            aborted=chunk.aborted,
            with_headers=settings.with_headers,
            skip_damaged=settings.with_damage,
        )
    except DamagedBatch as damaged:
        raise ReadFailed(
            f"{wanted.topic_partition}: the batch at offset {damaged.offset} is damaged "
            f"({damaged.reason}). "
            "Set on_corrupt: skip in the source of a pipeline to continue without it. "
            f"{BEHIND_DAMAGE}"
        ) from damaged


def _as_record(damaged: Damaged, *, with_headers: bool) -> RecordArrays:
    shown = damaged.data[:MAX_DAMAGE_BYTES]
    damage = f"offsets {damaged.start} to {damaged.end - 1} cannot be read: {damaged.reason}"
    if len(shown) < len(damaged.data):
        damage += f" (the first {len(shown)} of {len(damaged.data)} bytes are kept)"
    return RecordArrays(
        key=pa.nulls(1, pa.binary()),
        value=pa.array([shown], pa.binary()),
        offset=pa.array([damaged.start], pa.int64()),
        timestamp_ms=pa.array([NO_TIMESTAMP], pa.int64()),
        timestamp_type=pa.array([0], pa.int32()),
        headers=pa.nulls(1, pa.list_(HEADER)) if with_headers else None,
        key_bytes=0,
        value_bytes=len(shown),
        damage=pa.array([damage], pa.string()),
    )


def _uninitialized_memory(size_bytes: int) -> memoryview:
    """A `bytearray` would be filled with zeros first."""
    return np.empty(size_bytes, np.uint8).data
