"""Mutated requests on live connections do not affect other clients.

A few seeded seconds of it run with every test run; HEADRACE_FUZZ_SECONDS asks for more.
"""

import os
import random
import struct
import time
from contextlib import suppress

from headrace.broker.network.api_handlers import HANDLERS
from headrace.protocol.api import APIS
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headrace.records.codec import Codec
from support.brokers.processes import BrokerProcess, Spawn
from support.wire.batches import batch, fetch, fetch_request, produce, values_of
from support.wire.connection import Wire, request_frame
from support.wire.minimal_requests import requests
from support.wire.topics import create_topic

SECONDS = float(os.environ.get("HEADRACE_FUZZ_SECONDS", "4"))
SEED = int(os.environ.get("HEADRACE_FUZZ_SEED", "20240615"))
MAX_GROWTH_BYTES = 64 << 20
CHECK_EVERY = 200


def test_mutated_requests_do_not_affect_the_broker(spawn: Spawn) -> None:
    broker = spawn()
    generator = random.Random(SEED)
    with Wire(broker.bootstrap_servers) as healthy:
        create_topic(healthy, "healthy")
        create_topic(healthy, "fuzzed", 1, {"cleanup.policy": "compact"})
        corpus = _corpus()
        for sound in corpus:  # every handler is loaded before memory is measured
            _send(broker, [sound])
        before = broker.rss_bytes()
        deadline = time.monotonic() + SECONDS
        rounds = 0
        while time.monotonic() < deadline:
            frames = [
                _mutated(generator.choice(corpus), generator)
                for _ in range(generator.randint(1, 4))
            ]
            _send(broker, frames)
            if rounds % CHECK_EVERY == 0:
                _still_well(healthy, b"%d" % rounds)
            rounds += 1
        _still_well(healthy, b"the end")
        assert broker.running
        assert broker.rss_bytes() - before < MAX_GROWTH_BYTES
        assert rounds > 50
    assert "Traceback" not in broker.log_text(), broker.log_text()[-4000:]


def _corpus() -> list[bytes]:
    frames = []
    for key in sorted(HANDLERS):
        spec = APIS[key]
        for version in {spec.min_version, spec.max_version}:
            for _, request in requests(spec, version):
                frames.append(request_frame(request, version))
    for codec in Codec:
        data = batch(b"value" * 20, b"v", key=b"k", codec=codec)
        produced = ProduceRequest(
            acks=1,
            timeout_ms=100,
            topic_data=[
                TopicProduceData(
                    name="fuzzed", partition_data=[PartitionProduceData(index=0, records=data)]
                )
            ],
        )
        frames.append(request_frame(produced, 9))
    frames.append(request_frame(fetch_request("fuzzed"), 12))
    return frames


def _mutated(sound: bytes, generator: random.Random) -> bytes:
    body = bytearray(sound[4:])
    for _ in range(generator.randint(0, 6)):
        kind = generator.randrange(5)
        at = generator.randrange(len(body)) if body else 0
        if kind == 0 and body:
            body[at] = generator.randrange(256)
        elif kind == 1 and body:
            body[at] ^= 1 << generator.randrange(8)
        elif kind == 2:
            body[at:at] = generator.randbytes(generator.randint(1, 8))
        elif kind == 3:
            del body[at : at + generator.randint(1, 8)]
        else:
            body[at : at + 4] = generator.choice(
                (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0" * 4)
            )
    size = len(body)
    if generator.random() < 0.03:
        size = generator.choice((0, 1, size + 1, 2**31 - 1, 10_000_000))
    return struct.pack(">i", size) + bytes(body)


def _send(broker: BrokerProcess, frames: list[bytes]) -> None:
    """Sends, reads part of the response, and disconnects."""
    with suppress(OSError), Wire(broker.bootstrap_servers, timeout_s=0.02) as wire:
        for one in frames:
            wire.send_bytes(one)
        wire.socket.recv(65536)


def _still_well(healthy: Wire, value: bytes) -> None:
    result = produce(healthy, "healthy", batch(value))
    assert result.error_code == 0
    data = fetch(healthy, fetch_request("healthy", result.base_offset))
    assert values_of(data.records) == [value]
