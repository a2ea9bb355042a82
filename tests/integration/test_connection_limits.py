"""Too many connections, and idle connections."""

import time
from contextlib import ExitStack

import pytest

from headrace.cluster.resources import ConfigResourceType
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.metadata import MetadataRequest
from support.brokers.processes import Spawn, answers
from support.waiting import wait_for
from support.wire.batches import batch, produce
from support.wire.connection import TIMEOUT_S, ConnectionEnded, Wire
from support.wire.topics import create_topic

LIMIT = 5
IDLE_CONNECTIONS = 500
BACKLOG = 50
"""Of these connections at once, none waits a second for the kernel to repeat its first packet."""


def test_connections_over_the_limit_of_an_address_are_rejected_and_others_continue(
    spawn: Spawn,
) -> None:
    broker = spawn({"max.connections.per.ip": LIMIT})
    with ExitStack() as opened:
        # The connection that checked the start may still be open.
        wait_for(lambda: _served(broker.bootstrap_servers), "the start's connection is gone")
        served = [opened.enter_context(Wire(broker.bootstrap_servers)) for _ in range(LIMIT)]
        for wire in served:
            wire.ask(ApiVersionsRequest(), 0)
        for _ in range(20):
            refused = opened.enter_context(Wire(broker.bootstrap_servers))
            assert refused.ends()
        assert broker.lines_since_mark(
            "WARN refused a connection peer=127.0.0.1:", " limit=max.connections.per.ip"
        )
        for wire in served:
            wire.ask(MetadataRequest(topics=[]), 12)
        served[0].close()
        wait_for(lambda: _served(broker.bootstrap_servers), "the free place is taken")


def test_a_connection_over_max_connections_waits_until_another_ends(spawn: Spawn) -> None:
    broker = spawn({"max.connections": LIMIT})
    with ExitStack() as opened:
        wires = [opened.enter_context(Wire(broker.bootstrap_servers)) for _ in range(LIMIT)]
        for wire in wires:
            wire.ask(ApiVersionsRequest(), 0)
        late = opened.enter_context(Wire(broker.bootstrap_servers, timeout_s=0.3))
        late.send(ApiVersionsRequest(), 0)
        with pytest.raises(TimeoutError):
            late.receive_frame()
        (line,) = broker.lines_since_mark("stopped accepting connections")
        assert line.endswith("listener=PLAINTEXT limit=max.connections")
        wires[0].close()
        late.socket.settimeout(TIMEOUT_S)
        late.receive_frame()


def test_a_limit_that_is_set_while_the_broker_runs_applies_to_the_next_connection(
    spawn: Spawn,
) -> None:
    broker = spawn()
    limit = IncrementalAlterConfigsAlterableConfig(name="max.connections", value="1")
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=ConfigResourceType.BROKER, resource_name="", configs=[limit]
    )
    with Wire(broker.bootstrap_servers) as first:
        answer = first.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0
        with Wire(broker.bootstrap_servers, timeout_s=0.3) as late:
            late.send(ApiVersionsRequest(), 0)
            with pytest.raises(TimeoutError):
                late.receive_frame()
            first.close()
            late.socket.settimeout(TIMEOUT_S)
            late.receive_frame()


def test_connections_over_the_rate_wait(spawn: Spawn) -> None:
    broker = spawn({"max.connection.creation.rate": 10})
    with ExitStack() as opened:
        start = time.monotonic()
        for _ in range(15):
            opened.enter_context(Wire(broker.bootstrap_servers)).ask(ApiVersionsRequest(), 0)
        assert time.monotonic() - start > 0.4


def test_many_idle_connections_do_not_disturb_a_busy_one(spawn: Spawn) -> None:
    broker = spawn()
    before = broker.rss_bytes()
    with ExitStack() as opened:
        for _ in range(IDLE_CONNECTIONS // BACKLOG):
            for _ in range(BACKLOG):
                opened.enter_context(Wire(broker.bootstrap_servers))
            assert answers(broker.bootstrap_servers)  # the broker has accepted them all
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, "busy")
            for number in range(50):
                assert produce(wire, "busy", batch(b"x")).base_offset == number
        assert broker.rss_bytes() - before < 48 << 20


def test_an_idle_connection_is_closed_after_its_timeout(spawn: Spawn) -> None:
    broker = spawn({"connections.max.idle.ms": 300})
    with Wire(broker.bootstrap_servers, timeout_s=20) as wire:
        wire.ask(ApiVersionsRequest(), 0)
        assert wire.ends()


def test_a_smaller_request_size_limit_is_enforced(spawn: Spawn) -> None:
    broker = spawn({"socket.request.max.bytes": 100_000})
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "small")
        assert produce(wire, "small", batch(b"x" * 50_000)).error_code == 0
        wire.send_bytes((200_000).to_bytes(4, "big"))
        assert wire.ends()


def _served(bootstrap: str) -> bool:
    try:
        with Wire(bootstrap) as wire:
            wire.ask(ApiVersionsRequest(), 0)
    except (ConnectionEnded, OSError):
        return False
    return True
