"""`headrace.testing.Broker` is a real broker that a test can start, stop, crash and restart."""

import asyncio
import socket
from pathlib import Path

import pytest

import headrace.testing
from headrace.broker.runtime.errors import StartupError
from headrace.cluster.settings import InvalidSetting
from headrace.testing.broker import NotRunning
from headrace.testing.virtual_clock import VirtualClock
from support.waiting import wait_for

CLEAN_MARKER = ".kafka_cleanshutdown"


def answers(broker: headrace.testing.Broker) -> bool:
    """Whether something accepts on the broker's port and answers ApiVersions v0."""
    request = bytes.fromhex("0000000a 0012 0000 00000007 ffff")
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as client:
        client.sendall(request)
        head = client.recv(8, socket.MSG_WAITALL)
    return head[4:] == b"\x00\x00\x00\x07"


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return True
    return False


def test_the_broker_serves_inside_the_block_and_stops_after_it() -> None:
    with headrace.testing.Broker() as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        assert answers(broker)
        data = broker.data
        assert data.is_dir()
    assert refuses(broker.port)
    assert not data.exists()


def test_async_with_starts_and_stops_the_broker() -> None:
    async def main() -> Path:
        async with headrace.testing.Broker() as broker:
            assert await asyncio.to_thread(answers, broker)
            return broker.data

    assert not asyncio.run(main()).exists()


def test_two_brokers_in_one_process_are_independent() -> None:
    with headrace.testing.Broker() as one, headrace.testing.Broker() as two:
        assert one.port != two.port
        assert one.data != two.data
        assert answers(one) and answers(two)


def test_a_given_directory_outlives_the_broker(tmp_path: Path) -> None:
    with headrace.testing.Broker(data=tmp_path):
        pass
    assert (tmp_path / "meta.properties").is_file()


def test_restart_keeps_data_and_port() -> None:
    with headrace.testing.Broker() as broker:
        port, identity = broker.port, (broker.data / "meta.properties").read_text()
        broker.restart()
        assert broker.port == port
        assert (broker.data / "meta.properties").read_text() == identity
        assert answers(broker)


def test_stop_leaves_the_clean_shutdown_marker_and_kill_does_not(tmp_path: Path) -> None:
    broker = headrace.testing.Broker(data=tmp_path).start()
    broker.stop()
    assert (tmp_path / CLEAN_MARKER).exists()
    broker.start()
    broker.kill()
    assert not (tmp_path / CLEAN_MARKER).exists()
    assert refuses(broker.port)
    broker.restart()
    assert answers(broker)
    broker.close()


def test_a_startup_error_is_raised_to_the_caller() -> None:
    with pytest.raises(InvalidSetting, match=r"num\.partitions"):
        headrace.testing.Broker(settings={"num.partitions": "none"}).__enter__()


def test_a_port_in_use_is_a_startup_error() -> None:
    with (
        headrace.testing.Broker() as first,
        pytest.raises(StartupError, match=str(first.port)),
        headrace.testing.Broker(port=first.port),
    ):
        pass


def test_a_broker_that_was_never_started_has_no_address() -> None:
    with pytest.raises(NotRunning):
        _ = headrace.testing.Broker().bootstrap_servers


def test_stopping_twice_is_allowed() -> None:
    with headrace.testing.Broker() as broker:
        broker.stop()
        broker.stop()
        broker.kill()


def test_a_broker_that_loses_its_last_disk_stops_with_a_reason_and_can_restart() -> None:
    with headrace.testing.Broker(settings={"broker.id": "7"}) as broker:
        broker.headrace.produce("orders", b"kept")
        node = broker.node
        assert node is not None and broker.failure is None
        (directory,) = node.logs.directories
        broker.on_loop(lambda: directory.state.fail("a test pulled the plug"))
        wait_for(lambda: not broker.is_running, "the broker has ended")
        assert "a test pulled the plug" in str(broker.failure)
        assert refuses(broker.port)
        assert broker.node is None
        with pytest.raises(NotRunning, match="a test pulled the plug"):
            broker.pause()
        broker.restart()
        assert broker.failure is None
        assert [record.value for record in broker.headrace.consume("orders", count=1)] == [b"kept"]


def test_closing_a_broker_that_stopped_by_itself_does_not_raise() -> None:
    with headrace.testing.Broker(clock=VirtualClock()) as broker:
        node = broker.node
        assert node is not None
        (directory,) = node.logs.directories
        broker.on_loop(lambda: directory.state.fail("a test pulled the plug"))
        wait_for(lambda: broker.failure, "the broker has ended")
        broker.clock.advance(60)
    assert not broker.is_running
