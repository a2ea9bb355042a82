"""Reads committed records as Python objects, for topics with few records.

Arrow's reader is faster for millions of records, but its libraries take seconds to load.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.chunk_fetching import ChunkFetching
from headrace.pipeline.source.fetcher import Chunk
from headrace.pipeline.source.settings import ReadFailed, ReadSettings
from headrace.records.aborted_transactions import AbortedRecords, is_hidden
from headrace.records.batch_header import check_batch, headers
from headrace.records.errors import RecordError
from headrace.records.record import Record, iter_records

MAX_DECOMPRESSED_BYTES: Final = 1 << 30


def read_records(
    ranges: Sequence[OffsetRange], settings: ReadSettings
) -> Iterator[tuple[TopicPartition, Record]]:
    """The records of the ranges in order; raises `ReadFailed`, also for a damaged batch.

    Control records are left out and, if the settings ask for committed data, those of aborted
    transactions. Memory is bounded by a few fetches.
    """
    fetching = ChunkFetching([each for each in ranges if each.size], settings)
    try:
        for wanted, chunk in fetching:
            for record in _records(chunk, wanted):
                yield wanted.topic_partition, record
    finally:
        fetching.stop()


def _records(chunk: Chunk, wanted: OffsetRange) -> Iterator[Record]:
    filtering = None if chunk.aborted is None else AbortedRecords(chunk.aborted)
    start, end = chunk.start, min(chunk.end, wanted.end)
    at = start
    try:
        for pos, header in headers(chunk.data, partial_tail=True):
            at = header.base_offset
            batch = chunk.data[pos : pos + header.size]
            check_batch(chunk.data, pos, header)
            if is_hidden(batch, header, filtering) or header.last_offset < start or at >= end:
                continue
            for record in iter_records(batch, max_bytes=MAX_DECOMPRESSED_BYTES):
                if start <= record.offset < end:
                    yield record
    except RecordError as error:
        raise ReadFailed(
            f"{wanted.topic_partition}: the batch at offset {at} is damaged ({error})"
        ) from error
