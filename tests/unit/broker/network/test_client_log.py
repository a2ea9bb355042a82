"""Clients that are slow, refused or throttled have lines that they cannot multiply."""

import pytest

from headrace.broker.network.client_log import SLOW_BURST_LINES, ClientLog
from headrace.protocol.api import ApiKey
from headrace.security.principal import ANONYMOUS
from headrace.security.session import Session
from headrace.testing.virtual_clock import VirtualClock


class Client:
    peer = "10.0.0.7:50412"
    client_id = "billing"
    session = Session(ANONYMOUS, "10.0.0.7", "PLAINTEXT")


def fields(record: object) -> dict[str, object]:
    names = ("api", "principal", "client_id", "peer", "ms", "queued_ms", "handler_ms", "left_out")
    return {name: record.__dict__[name] for name in names if name in record.__dict__}


def test_a_slow_request_has_its_client_and_its_times(caplog: pytest.LogCaptureFixture) -> None:
    ClientLog(VirtualClock().monotonic).slow_request(Client(), ApiKey.PRODUCE, 0.25, 1.5)
    (record,) = caplog.records
    assert record.getMessage() == "slow request"
    assert fields(record) == {
        "api": "Produce",
        "principal": "User:ANONYMOUS",
        "client_id": "billing",
        "peer": "10.0.0.7:50412",
        "ms": 1750,
        "queued_ms": 250,
        "handler_ms": 1500,
    }


def test_slow_requests_of_a_client_are_limited_for_each_api(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    log = ClientLog(clock.monotonic)
    for _ in range(100):
        log.slow_request(Client(), ApiKey.PRODUCE, 0.0, 1.5)
    log.slow_request(Client(), ApiKey.OFFSET_COMMIT, 0.0, 1.5)
    assert len(caplog.records) == SLOW_BURST_LINES + 1
    clock.advance(10)
    log.slow_request(Client(), ApiKey.PRODUCE, 0.0, 1.5)
    assert fields(caplog.records[-1])["left_out"] == 100 - SLOW_BURST_LINES


def test_a_throttled_client_has_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = VirtualClock()
    log = ClientLog(clock.monotonic)
    for _ in range(121):
        log.throttled(Client(), 0.5)
        clock.advance(1)
    assert [record.getMessage() for record in caplog.records] == [
        "throttled a client: it is over a quota"
    ] * 3
    assert fields(caplog.records[1])["left_out"] == 59


def test_a_listener_that_is_full_has_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    log = ClientLog(VirtualClock().monotonic)
    for _ in range(1000):
        log.stopped_accepting("CLIENTS", "max.connections")
    log.stopped_accepting("CLIENTS", "max.connection.creation.rate")
    assert [record.__dict__["limit"] for record in caplog.records] == [
        "max.connections",
        "max.connection.creation.rate",
    ]


def test_refused_connections_of_one_host_do_not_flood(caplog: pytest.LogCaptureFixture) -> None:
    log = ClientLog(VirtualClock().monotonic)
    for port in range(1000):
        log.refused_connection(f"10.0.0.7:{port}", "max.connections")
    log.refused_connection("10.0.0.8:1", "max.connections")
    assert len(caplog.records) == 51
    caplog.set_level("INFO")
    log.report_left_out()
    assert fields(caplog.records[-1])["left_out"] == 950
