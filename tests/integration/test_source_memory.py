"""A pipeline task keeps only a few fetches in memory, whatever the size of the backlog."""

import json
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from support.wire.topics import MakeTopic

# Runs in a separate process because it measures the peak memory of the process.
READ = """
import json, resource, sys
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.application.jit_warmup import warm_up
from headrace.pipeline.source.record_reader import read_range
from headrace.pipeline.source.settings import ReadSettings

servers, topic, count, fetch_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
warm_up()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(
    len(chunk)
    for chunk in read_range(
        OffsetRange(topic, 0, 0, count), ReadSettings(servers, fetch_bytes=fetch_bytes)
    )
)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([rows, grown << 10]))
"""
MB = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("codec", "records", "value_bytes", "fetch_bytes", "most_bytes"),
    [("none", 300, 1 * MB, 4 * MB, 80 * MB), ("zstd", 60, 10 * MB, 16 * MB, 320 * MB)],
    ids=["a long backlog", "little that unpacks to much"],
)
def test_a_reader_keeps_a_few_fetches_in_memory_not_the_backlog(
    codec: str,
    records: int,
    value_bytes: int,
    fetch_bytes: int,
    most_bytes: int,
    bootstrap: str,
    make_topic: MakeTopic,
) -> None:
    topic = make_topic(1, {"max.message.bytes": 2 * value_bytes})
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "message.max.bytes": 2 * value_bytes,
            "batch.size": value_bytes,
        }
    )
    for _ in range(records):
        producer.produce(topic, bytes(value_bytes))
        producer.flush(60)
    ended = subprocess.run(
        [sys.executable, "-c", READ, bootstrap, topic, str(records), str(fetch_bytes)],
        capture_output=True,
        text=True,
        check=True,
    )
    rows, grown_bytes = json.loads(ended.stdout)
    assert rows == records
    assert grown_bytes < most_bytes < records * value_bytes
