"""Stopping: accepted requests are answered, time is bounded, a second signal ends at once."""

import os
import signal
import time

import pytest

from headrace.protocol.api import APIS, ApiKey
from support.brokers.processes import Spawn
from support.waiting import wait_for
from support.wire.batches import batch, fetch_request, produce
from support.wire.connection import ConnectionEnded, Wire
from support.wire.topics import create_topic


def test_a_waiting_fetch_does_not_delay_a_stop(spawn: Spawn) -> None:
    broker = spawn()
    with Wire(broker.bootstrap_servers, timeout_s=20) as wire:
        create_topic(wire, "quiet")
        wire.send(fetch_request("quiet", max_wait_ms=60_000, min_bytes=1), 12)
        began = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began < 10
        # The client gets a response or a closed connection.
        try:
            wire.receive(APIS[ApiKey.FETCH], 12)
        except ConnectionEnded:
            return
        assert wire.ends()


def test_a_clean_stop_leaves_the_marker_and_a_kill_does_not(spawn: Spawn) -> None:
    broker = spawn(ephemeral=False)
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "kept")
        produce(wire, "kept", batch(b"a"))
    marker = broker.data / ".kafka_cleanshutdown"
    assert not marker.exists()
    assert broker.stop() == 0
    assert marker.exists()
    broker.start()
    assert not marker.exists()  # a crash from now on must not look clean
    broker.kill()
    assert not marker.exists()


def test_a_stop_that_times_out_is_reported_and_the_next_start_recovers(spawn: Spawn) -> None:
    broker = spawn(ephemeral=False, settings={"headrace.stop.timeout.ms": 0})
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "kept")
        produce(wire, "kept", batch(b"a"))
    assert broker.stop() == 1
    assert "headrace.stop.timeout.ms" in broker.log.read_text()
    broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        assert produce(wire, "kept", batch(b"b")).base_offset == 1


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_sigint_and_sigterm_stop_the_broker(spawn: Spawn, sent: signal.Signals) -> None:
    broker = spawn()
    os.kill(broker.pid, sent)
    wait_for(lambda: not broker.running, "the broker has stopped")


def test_a_partial_request_does_not_delay_a_stop(spawn: Spawn) -> None:
    broker = spawn()
    with Wire(broker.bootstrap_servers) as wire:
        wire.send_bytes(b"\0\0\1\0half")
        began = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began < 10
        assert wire.ends()
