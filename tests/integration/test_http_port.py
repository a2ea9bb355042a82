"""The HTTP port of a real broker: endpoints, formats, limits, hostile input, security."""

import base64
import gzip
import json
import logging
import random
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from headrace.broker.http.http_connection import MAX_HEAD_BYTES
from headrace.broker.runtime.errors import StartupError
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.testing import Broker, allow
from support.clients.http_port import Response, get, samples_of, scrape
from support.waiting import wait_for
from support.wire.connection import Wire

ANY_PORT = "http://127.0.0.1:0"
TIMEOUT_MS = 400
MAX_CONNECTIONS = 8
FUZZ_CONNECTIONS = 150


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings: dict[str, str | int] = {
        "headrace.http.listener": ANY_PORT,
        "headrace.http.timeout.ms": TIMEOUT_MS,
        "headrace.http.max.connections": MAX_CONNECTIONS,
    }
    with Broker(settings=settings) as started:
        yield started


def address_of(broker: Broker) -> str:
    assert broker.node is not None
    assert broker.node.http is not None
    return broker.node.http.address


@pytest.fixture(scope="module")
def address(broker: Broker) -> str:
    return address_of(broker)


def opened(address: str) -> socket.socket:
    url = urlsplit(address)
    return socket.create_connection((url.hostname, url.port), timeout=20)


# --- endpoints ------------------------------------------------------------------------------------


def test_the_probes_and_the_version_are_json(address: str, broker: Broker) -> None:
    alive, ready, version = (get(address, path) for path in ("/livez", "/readyz", "/version"))
    assert json.loads(alive.body)["status"] == "alive"
    assert json.loads(ready.body)["status"] == "ready"
    assert broker.node is not None
    assert json.loads(version.body)["cluster"] == broker.node.cluster_id
    assert {each.status for each in (alive, ready, version)} == {200}
    assert alive.headers["content-type"] == "application/json"


def test_metrics_come_in_both_formats_and_compressed(address: str) -> None:
    """Prometheus prefers OpenMetrics; a browser and curl get text that every version reads."""
    plain = get(address)
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    accept = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.3"
    other = get(address, headers={"Accept": accept, "Accept-Encoding": "gzip"})
    assert other.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert other.headers["content-encoding"] == "gzip"
    families = {each.name for each in openmetrics(gzip.decompress(other.body).decode())}
    assert families >= {"headrace_build", "headrace_loop_lag_seconds"}
    assert len(families) == plain.text.count("# TYPE ")


def test_no_series_appears_twice(address: str) -> None:
    lines = [line for line in get(address).text.splitlines() if not line.startswith("#")]
    assert len(samples_of(get(address).text)) == len(lines)


def test_head_has_no_body(address: str) -> None:
    for path in ("/metrics", "/livez"):
        response = get(address, path, method="HEAD")
        assert (response.status, response.body) == (200, b"")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/metrics?name=x", 200),
        ("POST", "/metrics", 405),
        ("DELETE", "/livez", 405),
    ],
)
def test_other_requests_get_an_error(address: str, method: str, path: str, status: int) -> None:
    assert get(address, path, method=method).status == status


def test_a_connection_serves_several_requests_also_without_a_pause(address: str) -> None:
    with opened(address) as client:
        one = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
        client.sendall(one * 3 + b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: client.recv(65536), b""))
    assert text.count(b"HTTP/1.1 200") == 4
    assert b'"python"' in text


# --- limits ---------------------------------------------------------------------------------------


def test_a_head_without_an_end_is_cut_off(address: str) -> None:
    """Slow loris: a byte now and then does not extend the time."""
    with opened(address) as client:
        began = time.monotonic()
        client.settimeout(0.02)
        with pytest.raises((ConnectionError, BrokenPipeError)):
            while time.monotonic() < began + 10:
                client.sendall(b"G")
                try:
                    if not client.recv(1):
                        raise ConnectionResetError
                except TimeoutError:
                    continue
        assert TIMEOUT_MS / 1000 * 0.9 < time.monotonic() - began < 5


def test_a_head_that_is_too_long_is_refused(address: str) -> None:
    with opened(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nA: " + b"x" * (2 * MAX_HEAD_BYTES))
        assert client.recv(100).startswith(b"HTTP/1.1 431 ")


def test_a_body_is_not_read(address: str) -> None:
    with opened(address) as client:
        client.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n")
        text = b"".join(iter(lambda: client.recv(65536), b""))
    assert text.startswith(b"HTTP/1.1 405 ")


def test_idle_connections_make_room_and_busy_ones_are_waited_for(address: str) -> None:
    with ExitStack() as clients:
        idle = [clients.enter_context(opened(address)) for _ in range(MAX_CONNECTIONS)]
        for client in idle:
            client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(10) == b"HTTP/1.1 2"
        assert get(address, "/livez").status == 200
        for _ in range(MAX_CONNECTIONS):  # these send nothing
            clients.enter_context(opened(address))
        assert get(address, "/livez").status == 200


# --- hostile input --------------------------------------------------------------------------------


def test_no_input_stops_the_port_or_the_broker(address: str, broker: Broker) -> None:
    """Random bytes, broken requests and clients that leave: each ends its own connection only."""
    source = random.Random(20)
    pieces = [
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\n\r\n",
        b"GET http://x/metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\nExpect: 100-continue\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\xff\x00 HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\r\n" * 50,
    ]
    for _ in range(FUZZ_CONNECTIONS):
        data = bytearray(b"".join(source.choices(pieces, k=source.randint(1, 3))))
        for _ in range(source.randint(0, 4)):
            data[source.randrange(len(data))] = source.randrange(256)
        with opened(address) as client:
            try:
                client.sendall(data[: source.randint(1, len(data))])
                if source.random() < 0.2:
                    client.shutdown(socket.SHUT_WR)
                    client.recv(100)
            except ConnectionError:
                continue
    assert get(address, "/readyz").status == 200
    with Wire(broker.bootstrap_servers) as wire:
        wire.ask(ApiVersionsRequest(), 0)


# --- start and stop -------------------------------------------------------------------------------


def test_a_taken_port_is_a_clear_error(address: str) -> None:
    port = urlsplit(address).port
    second = Broker(settings={"headrace.http.listener": address})
    with pytest.raises(StartupError, match=rf"headrace.http.listener.*{port}.*in use"):
        second.start()
    second.close()


def test_a_broker_without_the_port_counts_nothing() -> None:
    with Broker() as quiet:
        assert quiet.node is not None
        assert quiet.node.http is None
        assert quiet.node.request_meters is None
        assert quiet.node.partitions.traffic is None


# --- security -------------------------------------------------------------------------------------


def basic(name: str, password: str) -> dict[str, str]:
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def test_basic_bearer_and_tls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Probes need no login. A user needs a right password, and DESCRIBE on the cluster."""
    token = tmp_path / "token"
    token.write_text("secret-token\n")
    settings: dict[str, str | int] = {
        "headrace.http.listener": "https://localhost:0",
        "headrace.http.authentication": "basic,bearer",
        "headrace.http.bearer.token.file": str(token),
    }
    users = {"reader": "pass:word", "other": "word"}
    acls = [allow("reader", "describe", cluster=True)]
    with Broker(settings=settings, security="sasl_ssl", users=users, acls=acls) as broker:
        address = address_of(broker)
        trusted = ssl.create_default_context(cafile=str(broker.ca_path))

        def ask(headers: dict[str, str], path: str = "/metrics") -> Response:
            return get(address, path, headers, tls=trusted)

        assert ask({}, "/livez").status == ask({}, "/readyz").status == 200
        refused = ask({})
        assert refused.status == 401
        assert "Basic" in refused.headers["www-authenticate"]
        assert ask(basic("reader", "pass:word")).status == 200
        assert ask(basic("reader", "pass:word"), "/version").status == 200
        assert ask(basic("other", "word")).status == 403
        assert ask(basic("reader", "word")).status == 401
        assert ask(basic("nobody", "")).status == 401
        assert ask({"Authorization": "Basic %%%"}).status == 401
        assert ask({"Authorization": "Bearer secret-token"}).status == 200
        token.write_text("new-token")
        assert ask({"Authorization": "Bearer secret-token"}).status == 401
        assert ask({"Authorization": "Bearer new-token"}).status == 200
        samples = samples_of(ask({"Authorization": "Bearer new-token"}).text)
        labels = frozenset({("listener", "HTTP"), ("networkProcessor", "0")})
        name = "kafka_server_socket_server_metrics_failed_authentication_total"
        assert samples[name, labels] == 4
        with pytest.raises(ssl.SSLError):
            get(address, "/livez", tls=ssl.create_default_context())
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_an_open_port_without_a_login_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(settings={"headrace.http.listener": "http://:0"}) as broker:
        assert scrape(address_of(broker)).value("kafka_server_kafkaserver_brokerstate") == 3
    assert any("anyone who can connect" in record.message for record in caplog.records)


def test_readiness_says_that_the_broker_stops(broker: Broker, address: str) -> None:
    node = broker.node
    assert node is not None
    broker.on_loop(lambda: setattr(node, "stopping", True))
    try:
        response = get(address, "/readyz")
        assert response.status == 503
        assert json.loads(response.body)["reasons"] == ["the broker is stopping"]
        assert get(address, "/livez").status == 200
    finally:
        broker.on_loop(lambda: setattr(node, "stopping", False))
    wait_for(lambda: get(address, "/readyz").status == 200, "the broker is ready again")
