"""Listeners with TLS: whom they accept, whom they refuse, and clients that misbehave."""

import datetime as dt
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.broker.runtime.errors import StartupError
from headrace.cluster.settings import InvalidSetting
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.security.session import Session
from headrace.testing import Broker
from support.security.certificates import CertificateAuthority
from support.security.tls_wire import TlsWire, client_context
from support.waiting import wait_for
from support.wire.batches import batch, fetch, fetch_request, produce, values_of
from support.wire.connection import ConnectionEnded, Wire
from support.wire.topics import create_topic

Start = Callable[..., "TlsBroker"]
HALF_OPEN = 300
LARGE_FETCH_BYTES = 8 << 20
CLOSED = (ConnectionEnded, OSError)


class TlsBroker:
    """A broker in this process, with one listener of each protocol."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        node = broker.node
        assert node is not None
        self.node = node
        self.plain_port, self.port = (endpoint.port for endpoint in node.endpoints)

    def sessions(self) -> list[Session]:
        """The sessions of the clients with TLS."""
        opened = self._broker.on_loop(lambda: tuple(self.node.server._connections))
        return [each.session for each in opened if each.listener == "SSL"]

    def handshakes(self) -> int:
        tls = self.node.tls
        assert tls is not None
        return self._broker.on_loop(lambda: len(tls._handshakes))


@pytest.fixture
def start(authority: CertificateAuthority) -> Iterator[Start]:
    with ExitStack() as started:

        def make(**settings: str) -> TlsBroker:
            named = {
                "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
                "ssl.keystore.location": str(authority.issue("broker").keystore_file),
                "ssl.truststore.location": str(authority.ca_file),
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
            broker = Broker(settings={name: text for name, text in named.items() if text})
            return TlsBroker(started.enter_context(broker))

        yield make


# --- who is accepted ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_with_a_certificate_is_the_principal_that_it_names(
    start: Start, authority: CertificateAuthority, version: ssl.TLSVersion
) -> None:
    broker = start(ssl_client_auth="required")
    context = client_context(authority, authority.issue("alice", organization="Example"))
    context.minimum_version = context.maximum_version = version
    with TlsWire(broker.port, context) as wire:
        wire.ask(ApiVersionsRequest(), 0)
        (session,) = broker.sessions()
        assert str(session.principal) == "User:O=Example,CN=alice"
        assert (session.security_protocol, session.listener) == ("SSL", "SSL")
        assert session.host == "127.0.0.1"
        assert not wire.socket.session.has_ticket  # a resumed session would outlive the trust


def test_rules_map_the_name_and_refuse_clients_that_none_applies_to(
    start: Start, authority: CertificateAuthority
) -> None:
    rules = "RULE:^.*CN=(al[a-z]*)$/$1/"
    broker = start(ssl_client_auth="required", ssl_principal_mapping_rules=rules)
    with TlsWire(broker.port, client_context(authority, authority.issue("alice"))) as wire:
        wire.ask(ApiVersionsRequest(), 0)
        assert [str(each.principal) for each in broker.sessions()] == ["User:alice"]
    assert is_refused(broker, client_context(authority, authority.issue("bob")))


@pytest.mark.parametrize("client_auth", ["none", "requested"])
def test_a_client_without_a_certificate_is_anonymous_where_none_is_required(
    start: Start, authority: CertificateAuthority, client_auth: str
) -> None:
    broker = start(ssl_client_auth=client_auth)
    with TlsWire(broker.port, client_context(authority)) as wire:
        wire.ask(ApiVersionsRequest(), 0)
        assert [each.principal.name for each in broker.sessions()] == ["ANONYMOUS"]


def test_clients_without_an_acceptable_certificate_are_refused(
    start: Start, authority: CertificateAuthority, tmp_path: Path
) -> None:
    broker = start(ssl_client_auth="required")
    stranger = CertificateAuthority(tmp_path, "Stranger").issue("alice")
    expired = authority.issue("alice", valid_for=dt.timedelta(days=-1))
    for identity in (None, stranger, expired):
        assert is_refused(broker, client_context(authority, identity))
    assert broker.sessions() == []


def is_refused(broker: TlsBroker, context: ssl.SSLContext) -> bool:
    """With TLS 1.3, a client learns it only from its first read."""
    try:
        with TlsWire(broker.port, context) as wire:
            wire.ask(ApiVersionsRequest(), 0)
    except CLOSED:
        return True
    return False


def test_metadata_and_coordinators_are_those_of_the_listener_that_was_asked(
    start: Start, authority: CertificateAuthority
) -> None:
    broker = start()
    with (
        TlsWire(broker.port, client_context(authority)) as secure,
        Wire(f"127.0.0.1:{broker.plain_port}") as plain,
    ):
        for wire, port in ((secure, broker.port), (plain, broker.plain_port)):
            described = wire.ask(MetadataRequest(topics=[]), 12)
            assert [each.port for each in described.brokers] == [port]
            found = wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            assert [each.port for each in found.coordinators] == [port]


# --- stores and settings --------------------------------------------------------------------------


def test_pkcs12_stores_are_read_whatever_their_type_says(
    start: Start, authority: CertificateAuthority
) -> None:
    issued = authority.issue("broker")
    broker = start(
        ssl_keystore_location=str(issued.pkcs12("hush")),
        ssl_keystore_type="JKS",
        ssl_keystore_password="hush",
    )
    with TlsWire(broker.port, client_context(authority)) as wire:
        assert wire.certificate == issued.der


def test_no_secret_is_left_on_the_disk_or_shown(
    start: Start, authority: CertificateAuthority
) -> None:
    issued = authority.issue("broker")
    broker = start(
        ssl_keystore_location="",
        ssl_keystore_key=issued.encrypted_key("hush"),
        ssl_keystore_certificate_chain=issued.chain,
        ssl_key_password="hush",
    )
    with TlsWire(broker.port, client_context(authority)) as wire:
        assert wire.certificate == issued.der
    assert "hush" not in repr(broker.node.settings)
    tls = broker.node.tls
    assert tls is not None
    assert "PRIVATE KEY" not in repr(tls._active)
    assert "hush" not in repr(tls._active)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl_keystore_location": ""}, r"needs a key and a certificate"),
        ({"ssl_keystore_location": "/none.pem"}, r"/none.pem: No such file"),
        ({"ssl_client_auth": "required", "ssl_truststore_location": ""}, r"certificates to trust"),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, r"cannot choose among the suites"),
        ({"ssl_cipher_suites": "SSL_NULL"}, r"not a suite"),
        ({"ssl_enabled_protocols": "TLSv1.1"}, r"TLSv1.1 is not supported"),
        ({"ssl_keystore_key": "x"}, r"set either this"),
        ({"ssl_principal_mapping_rules": "RULE:x"}, r"neither DEFAULT nor RULE"),
        ({"security_inter_broker_protocol": "SASL_SSL"}, r"no listener has this name"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    start: Start, settings: dict[str, str], words: str
) -> None:
    with pytest.raises((StartupError, InvalidSetting), match=words):
        start(**settings)


def test_a_jks_store_is_refused_with_the_command_that_converts_it(
    start: Start, tmp_path: Path
) -> None:
    store = tmp_path / "a.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
    with pytest.raises(StartupError, match="keytool -importkeystore"):
        start(ssl_keystore_location=str(store))


def test_a_wrong_password_is_an_error_and_no_prompt(
    start: Start, authority: CertificateAuthority
) -> None:
    issued = authority.issue("broker")
    inline = {
        "ssl_keystore_location": "",
        "ssl_keystore_key": issued.encrypted_key("hush"),
        "ssl_keystore_certificate_chain": issued.chain,
    }
    with pytest.raises(StartupError, match=r"ssl\.key\.password is wrong or not set"):
        start(**inline)
    with pytest.raises(StartupError, match="password is wrong"):
        start(ssl_keystore_location=str(issued.pkcs12("hush")), ssl_keystore_password="other")


def test_only_the_chosen_suites_are_offered(start: Start, authority: CertificateAuthority) -> None:
    broker = start(ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")
    with TlsWire(broker.port, client_context(authority)) as wire:
        chosen = wire.socket.cipher()
        assert chosen is not None
        assert chosen[:2] == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2")


# --- clients that misbehave -----------------------------------------------------------------------


def test_plaintext_bytes_on_a_tls_port_close_the_connection(start: Start) -> None:
    broker = start()
    with Wire(f"127.0.0.1:{broker.port}") as wire, pytest.raises(CLOSED):
        wire.ask(ApiVersionsRequest(), 0)
        wire.receive_frame()
    wait_for(lambda: not broker.handshakes(), "the handshake is over")


def test_hundreds_of_half_open_handshakes_do_not_disturb_others(
    start: Start, authority: CertificateAuthority
) -> None:
    broker = start()
    with ExitStack() as opened:
        for _ in range(HALF_OPEN):
            half = opened.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            half.sendall(bytes.fromhex("1603010200"))  # a hello of which nothing follows
        wait_for(lambda: broker.handshakes() >= HALF_OPEN, "all handshakes have begun")
        with TlsWire(broker.port, client_context(authority), timeout_s=5) as wire:
            wire.ask(ApiVersionsRequest(), 0)
    wait_for(lambda: not broker.handshakes(), "the clients are gone")


def test_a_handshake_that_is_not_complete_in_time_is_ended(start: Start) -> None:
    broker = start(headrace_authentication_timeout_ms="200")
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as silent:
        assert silent.recv(1) == b""


def test_a_connection_counts_towards_the_limits_before_its_handshake(
    start: Start, authority: CertificateAuthority
) -> None:
    broker = start(max_connections_per_ip="1")
    with socket.create_connection(("127.0.0.1", broker.port)):
        wait_for(lambda: broker.handshakes() == 1, "the first connection has been accepted")
        with pytest.raises(OSError):
            TlsWire(broker.port, client_context(authority))


def test_requests_and_responses_of_megabytes_pass_whole(
    start: Start, authority: CertificateAuthority
) -> None:
    broker = start(message_max_bytes=str(LARGE_FETCH_BYTES))
    with TlsWire(broker.port, client_context(authority)) as wire:
        create_topic(wire, "large")
        payload = bytes(range(256)) * 4096 * 3
        assert produce(wire, "large", batch(payload)).error_code == 0
        fetched = fetch(wire, fetch_request("large", max_bytes=LARGE_FETCH_BYTES))
        assert values_of(fetched.records) == [payload]


@pytest.mark.parametrize(("size_bytes", "expected"), [("50000", 100_000), ("-1", None)])
def test_the_receive_buffer_of_connections_is_bounded(
    start: Start, size_bytes: str, expected: int | None
) -> None:
    broker = start(**{"socket.receive.buffer.bytes": size_bytes})

    def buffers() -> dict[str, int]:
        return {
            name: acceptor._sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            for name, acceptor in broker.node.server._acceptors.items()
        }

    found = buffers()
    # The kernel doubles the value, for its own bookkeeping.
    assert found["SSL"] == (expected or found["PLAINTEXT"])
