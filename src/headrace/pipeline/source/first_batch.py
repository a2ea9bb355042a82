"""Reads the first record batch of a range, to look at a sample of its records."""

import asyncio
from typing import Final

from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.cluster_client import cluster_client
from headrace.pipeline.source.fetcher import Fetcher
from headrace.pipeline.source.settings import ReadSettings
from headrace.tracing.batch_traces import MAX_BATCH_BYTES, copy_first_batch

TIMEOUT_S: Final = 5.0


def read_first_batch(wanted: OffsetRange, settings: ReadSettings) -> bytes | None:
    """The batch, if it is small; None if there is none in time. Blocks, and runs its own loop."""
    settings = settings._replace(fetch_bytes=MAX_BATCH_BYTES)
    return asyncio.run(_read(wanted, settings))


async def _read(wanted: OffsetRange, settings: ReadSettings) -> bytes | None:
    async with cluster_client(settings) as client:
        fetcher = Fetcher(client, wanted, settings, fail_on_data_loss=False)
        offset = wanted.start
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while offset < wanted.end:
                    chunk, offset = await fetcher.fetch(offset)
                    if chunk is not None:
                        return copy_first_batch(chunk.data)
        except TimeoutError:
            return None
    return None
