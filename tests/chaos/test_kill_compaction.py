"""kill -9 while logs are compacted: the last value of each key keeps its offset."""

import os
import random
from pathlib import Path

import pytest

from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch
from support.brokers.processes import BrokerProcess
from support.waiting import wait_for
from support.wire.batches import fetch, fetch_request, now_ms, produce, records_of, whole_batches
from support.wire.connection import Wire
from support.wire.topics import create_topic

KILLS = int(os.environ.get("HEADRACE_KILLS", "5"))
SEED = int(os.environ.get("HEADRACE_KILL_SEED", str(random.randrange(2**32))))
SECONDS_PER_KILL = 20
BATCHES = 60
KEYS = 40

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(60 + KILLS * SECONDS_PER_KILL),
    pytest.mark.skipif(
        bool(os.environ.get("HEADRACE_TEST_BOOTSTRAP")), reason="needs a broker that it may kill"
    ),
]


def read_all(wire: Wire, topic: str) -> list[Record]:
    found: list[Record] = []
    offset = 0
    while True:
        data = fetch(wire, fetch_request(topic, offset))
        assert data.error_code == 0
        if offset >= data.high_watermark:
            return found
        found += records_of(data.records)
        last = whole_batches(data.records)[-1]
        offset = int.from_bytes(last[:8], "big") + int.from_bytes(last[23:27], "big") + 1


def cleaned_to(broker: BrokerProcess, topic: str) -> int:
    checkpoint = broker.data / "cleaner-offset-checkpoint"
    if not checkpoint.exists():
        return 0
    lines = [line.split() for line in checkpoint.read_text().splitlines()[2:]]
    return next((int(offset) for name, _, offset in lines if name == topic), 0)


def test_no_key_loses_its_last_value_to_a_kill(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    print(f"HEADRACE_KILL_SEED={SEED}")
    settings = {"log.cleaner.backoff.ms": 20, "log.segment.delete.delay.ms": 0}
    written: dict[int, Record] = {}
    second = now_ms()
    with BrokerProcess(tmp_path / "broker", settings=settings) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            config = {
                "cleanup.policy": "compact",
                "segment.ms": 1000,
                "min.cleanable.dirty.ratio": 0,
                "message.timestamp.after.max.ms": 2**62,
            }
            create_topic(wire, "killed", 1, config)
        for _ in range(KILLS):
            before = cleaned_to(broker, "killed")
            with Wire(broker.bootstrap_servers) as wire:
                for _ in range(BATCHES):
                    second += rng.choice((10, 2000))
                    records = [
                        Record(n, second, b"k%d" % rng.randrange(KEYS), rng.randbytes(50))
                        for n in range(rng.randint(1, 20))
                    ]
                    batch = build_batch(records, codec=Codec(rng.randrange(5)))
                    answer = produce(wire, "killed", batch)
                    assert answer.error_code == 0
                    for record in records:
                        offset = answer.base_offset + record.offset
                        written[offset] = record._replace(offset=offset)
            if rng.random() < 0.5:
                wait_for(
                    lambda at=before: cleaned_to(broker, "killed") > at,  # type: ignore[misc]
                    "the cleaner goes on",
                    deadline_s=60,
                )
            broker.kill()
            broker.start()
            with Wire(broker.bootstrap_servers) as wire:
                found = read_all(wire, "killed")
            assert all(written[record.offset] == record for record in found)
            last = {record.key: record for record in written.values()}
            assert {record.key: record for record in found} == last
        wait_for(lambda: cleaned_to(broker, "killed") > 0, "it was compacted", deadline_s=60)
        with Wire(broker.bootstrap_servers) as wire:
            wait_for(
                lambda: len(read_all(wire, "killed")) < len(written) / 2,
                "most of it is gone",
                deadline_s=60,
            )
