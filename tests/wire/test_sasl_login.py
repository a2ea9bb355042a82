"""Logins over the wire: what a broker serves before, while and after a client authenticates."""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import headrace.testing
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.messages.fetch import FetchRequest
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headrace.protocol.messages.produce import ProduceRequest
from headrace.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headrace.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from headrace.protocol.struct import Struct
from headrace.security.sasl.scram_credential import ScramMechanism
from support.security.sasl_wire import (
    authenticate,
    handshake,
    log_in,
    log_in_with_scram,
    put_user,
    sasl_settings,
)
from support.security.scram_client import ScramClient
from support.security.signed_tokens import claims, issuer_settings, rsa_key, signed
from support.waiting import wait_for
from support.wire.connection import ConnectionEnded, Wire, frame, request_frame
from support.wire.minimal_requests import requests

LOGIN_APIS = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
INVALID_SCRAM = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    "SCRAM-SHA-256"
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.testing.Broker]:
    settings = {
        **sasl_settings(*MECHANISMS[1:]),
        **issuer_settings(tmp_path_factory.mktemp("issuer")),
    }
    with headrace.testing.Broker(settings=settings) as running:
        with Wire(running.bootstrap_servers) as wire:
            log_in(wire)
            put_user(wire, "bob", "bob-secret")
            put_user(wire, "carol", "carol-secret", ScramMechanism.SCRAM_SHA_512)
        yield running


@pytest.fixture
def wire(broker: headrace.testing.Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as connection:
        yield connection


def api_versions() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")


def is_served(wire: Wire) -> bool:
    return wire.call(MetadataRequest(topics=[]), MetadataResponse).cluster_id is not None


def bearer(token: str) -> bytes:
    return f"n,,\1auth=Bearer {token}\1\1".encode()


# --- logins that succeed ------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_plain_in_every_version(wire: Wire, version: int) -> None:
    assert handshake(wire, "PLAIN").mechanisms == MECHANISMS
    answer = authenticate(wire, b"\0alice\0alice-secret", version)
    assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, "", 0)
    assert is_served(wire)


@pytest.mark.parametrize(
    ("user", "mechanism"),
    [("bob", ScramMechanism.SCRAM_SHA_256), ("carol", ScramMechanism.SCRAM_SHA_512)],
)
def test_scram(wire: Wire, user: str, mechanism: ScramMechanism) -> None:
    assert log_in_with_scram(wire, user, f"{user}-secret", mechanism).error_code == 0
    assert is_served(wire)


def test_oauthbearer_ends_with_its_token(wire: Wire) -> None:
    handshake(wire, "OAUTHBEARER")
    answer = authenticate(wire, bearer(signed()))
    assert answer.error_code == 0
    assert 3_500_000 < answer.session_lifetime_ms <= 3_600_000
    assert is_served(wire)


def test_api_versions_may_come_first_and_again_if_it_was_refused(wire: Wire) -> None:
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1)
    wire.send_bytes(frame(head + b"\0\1\2"))
    refused = ApiVersionsResponse.decode(wire.receive_frame()[4:], 0)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    invalid = wire.call(ApiVersionsRequest(client_software_name=""), ApiVersionsResponse, 3)
    assert invalid.error_code == ErrorCode.INVALID_REQUEST
    answer = wire.call(api_versions(), ApiVersionsResponse)
    assert {17, 36} <= {each.api_key for each in answer.api_keys}
    assert log_in(wire).error_code == 0
    assert is_served(wire)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_after_handshake_version_0_tokens_have_no_header(wire: Wire, mechanism: str) -> None:
    assert handshake(wire, mechanism, version=0).error_code == 0
    if mechanism == "PLAIN":
        wire.send_bytes(frame(b"\0alice\0alice-secret"))
        assert wire.receive_frame() == b""
    else:
        client = ScramClient("bob", "bob-secret")
        wire.send_bytes(frame(client.first))
        wire.send_bytes(frame(client.final(wire.receive_frame())))
        assert client.trusts(wire.receive_frame())
    assert is_served(wire)


def test_large_requests_are_served_after_the_login(broker: headrace.testing.Broker) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        log_in(wire)
        request = MetadataRequest(topics=[])
        data = request_frame(request, APIS[ApiKey.METADATA].max_version, correlation_id=1)
        wire.send_bytes(frame(data[4:] + bytes(1 << 20)))  # ignored bytes after the message
        assert wire.receive_frame()


# --- logins that fail ---------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["alice", "mallory"])
def test_a_wrong_password_and_an_unknown_user_of_plain(wire: Wire, user: str) -> None:
    answer = log_in(wire, user, "wrong")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert wire.ends()


@pytest.mark.parametrize("user", ["bob", "mallory"])
def test_a_wrong_password_and_an_unknown_user_of_scram(wire: Wire, user: str) -> None:
    answer = log_in_with_scram(wire, user, "wrong")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == INVALID_SCRAM
    assert wire.ends()


def test_a_user_of_one_mechanism_is_unknown_to_the_other(wire: Wire) -> None:
    answer = log_in_with_scram(wire, "bob", "bob-secret", ScramMechanism.SCRAM_SHA_512)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "token",
    [
        signed(key=rsa_key(1)),
        signed(key_id="unknown"),
        signed(claims(exp=1)),
        signed(claims(aud="other")),
        "eyJhbGciOiJub25lIn0.e30.",
    ],
)
def test_a_bad_token_is_refused_in_two_steps(wire: Wire, token: str) -> None:
    handshake(wire, "OAUTHBEARER")
    first = authenticate(wire, bearer(token))
    if first.error_code == 0:
        assert first.auth_bytes == b'{"status":"invalid_token"}'
        first = authenticate(wire, b"\1")
    assert first.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert wire.ends()


def test_a_failure_is_answered_after_the_delay(tmp_path: Path) -> None:
    settings = sasl_settings(connection__failed__authentication__delay__ms="400")
    with (
        headrace.testing.Broker(settings=settings) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        handshake(wire, "PLAIN")
        wire.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
        wire.send(MetadataRequest(topics=[]), 12)
        wire.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            wire.receive_frame()
        wire.socket.settimeout(10)
        assert wire.receive_frame()  # SASL_AUTHENTICATION_FAILED
        assert wire.ends()  # and nothing for the request that followed


def test_a_mechanism_that_is_not_enabled_closes_the_connection(wire: Wire) -> None:
    answer = handshake(wire, "GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == MECHANISMS
    assert wire.ends()


# --- what is not part of a login ----------------------------------------------------------------


@pytest.mark.parametrize("key", [key for key in APIS if key not in LOGIN_APIS])
def test_no_other_request_is_served_before_the_handshake(wire: Wire, key: ApiKey) -> None:
    """Redpanda CVE-2023-50976: APIs that are served without a login."""
    version = APIS[key].max_version
    _, request = next(requests(APIS[key], version))
    wire.send_bytes(request_frame(request, version))
    assert wire.ends()


def test_a_body_is_not_even_parsed_before_the_login(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CVE-2022-34917: a body that costs memory."""
    parsed: list[str] = []
    monkeypatch.setattr(FetchRequest, "reader", lambda _: parsed.append("reader"))
    monkeypatch.setattr(FetchRequest, "read", lambda *_: parsed.append("read"))
    wire.send(FetchRequest(), 12)
    assert wire.ends()
    assert parsed == []


def test_a_second_api_versions_is_not_served(wire: Wire) -> None:
    wire.call(api_versions(), ApiVersionsResponse)
    wire.send(api_versions(), 3)
    assert wire.ends()


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE])
def test_a_request_between_the_tokens_is_an_illegal_state(wire: Wire, key: ApiKey) -> None:
    handshake(wire, "SCRAM-SHA-256")
    version = APIS[key].min_version
    wire.send_bytes(frame(struct.pack(">hhih", key, version, 7, -1) + b"\xff" * 64))
    if key is not ApiKey.METADATA:  # its response has no field for an error of the whole request
        _, answer = wire.receive(APIS[key], version)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE  # type: ignore[attr-defined]
    with pytest.raises(ConnectionEnded):
        while True:
            wire.receive_frame()


def test_pipelined_requests_are_not_served_before_the_login_ends(wire: Wire) -> None:
    """A request in the same packet as a failing login is never served."""
    frames = [
        request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, correlation_id=1),
        request_frame(MetadataRequest(topics=[]), 12, correlation_id=2),
        request_frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2),
    ]
    wire.send_bytes(b"".join(frames))
    correlation_id, _ = wire.receive(APIS[ApiKey.SASL_HANDSHAKE], 1)
    assert correlation_id == 1
    with pytest.raises(ConnectionEnded):
        for _ in range(3):
            body = wire.receive_frame()
            assert b"127.0.0.1" not in body  # no metadata


def test_a_pipelined_login_is_served_in_order(wire: Wire) -> None:
    frames = [
        request_frame(api_versions(), 3, correlation_id=1),
        request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, correlation_id=2),
        request_frame(
            SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2, correlation_id=3
        ),
        request_frame(MetadataRequest(topics=[]), 12, correlation_id=4),
    ]
    wire.send_bytes(b"".join(frames))
    ids = [struct.unpack(">i", wire.receive_frame()[:4])[0] for _ in frames]
    assert ids == [1, 2, 3, 4]


@pytest.mark.parametrize("claimed", [524_289, 104_857_600, 2**31 - 1, -1, -(2**31)])
@pytest.mark.parametrize("handshaken", [False, True])
def test_large_frames_are_refused_before_the_login(
    wire: Wire, claimed: int, handshaken: bool
) -> None:
    """CVE-2022-34917: memory for clients that are not authenticated."""
    if handshaken:
        handshake(wire, "PLAIN", version=0)
    wire.send_bytes(struct.pack(">i", claimed) + bytes(64))
    assert wire.ends()


def test_a_client_that_does_not_log_in_is_closed_in_time() -> None:
    settings = sasl_settings(headrace__authentication__timeout__ms="200")
    with headrace.testing.Broker(settings=settings) as broker:
        with Wire(broker.bootstrap_servers) as silent, Wire(broker.bootstrap_servers) as slow:
            handshake(slow, "PLAIN")
            assert silent.ends()
            assert slow.ends()
        with Wire(broker.bootstrap_servers) as wire:
            log_in(wire)
            wire.socket.settimeout(0.5)
            with pytest.raises(TimeoutError):
                wire.socket.recv(1)


def test_logins_of_authenticated_clients_are_an_illegal_state(wire: Wire) -> None:
    """Without a session that ends, a client does not log in again."""
    log_in(wire)
    refused = wire.call(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
    assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
    answer = wire.call(SaslAuthenticateRequest(auth_bytes=b"x"), SaslAuthenticateResponse)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(wire)


def test_a_listener_without_sasl_does_not_log_clients_in(bootstrap: str) -> None:
    with Wire(bootstrap) as wire:
        refused = wire.call(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
        assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_no_secret_is_logged(
    broker: headrace.testing.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """CVE-2026-33558: secrets in the log, at any level."""
    caplog.set_level(0)
    token = signed(claims(aud="other"))
    for mechanism, tokens in (
        ("PLAIN", [b"\0alice\0wrong-password-1"]),
        ("PLAIN", [b"wrong-password-2"]),
        ("OAUTHBEARER", [bearer(token), b"\1"]),
        ("SCRAM-SHA-256", [b"n,,wrong-password-3"]),
    ):
        with Wire(broker.bootstrap_servers) as wire:
            handshake(wire, mechanism)
            for each in tokens:
                authenticate(wire, each)
    with Wire(broker.bootstrap_servers) as wire:
        log_in(wire)
    wait_for(lambda: "login failed" in caplog.text, "the failures are logged")
    logged = " ".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    for secret in ("wrong-password", "admin-secret", *token.split(".")):
        assert secret not in logged


@pytest.mark.parametrize("request_", [FetchRequest(), ProduceRequest()], ids=["fetch", "produce"])
def test_records_are_neither_read_nor_written_during_a_login(wire: Wire, request_: Struct) -> None:
    handshake(wire, "PLAIN")
    wire.send(request_, 12)
    with pytest.raises(ConnectionEnded):
        for _ in range(2):  # the response with ILLEGAL_SASL_STATE, then the end
            wire.receive_frame()


@pytest.mark.parametrize("mechanism", [None, *MECHANISMS])
@pytest.mark.parametrize("version", [0, 1])
def test_random_bytes_never_fail_the_broker(
    broker: headrace.testing.Broker,
    mechanism: str | None,
    version: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rng = Random(f"{mechanism}-{version}")
    valid = [
        request_frame(api_versions(), 3),
        request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1),
        request_frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2),
        frame(b"n,,n=bob,r=abc"),
        frame(bearer(signed())),
    ]
    for _ in range(15):
        data = bytearray(rng.choice(valid))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with Wire(broker.bootstrap_servers) as hostile:
            if mechanism is not None:
                handshake(hostile, mechanism, version)
            with suppress(BrokenPipeError, ConnectionResetError):
                hostile.send_bytes(bytes(data) + rng.randbytes(rng.randrange(40)))
                hostile.socket.shutdown(socket.SHUT_WR)
            while not hostile.ends():
                pass
    assert not [record for record in caplog.records if record.exc_info]
    with Wire(broker.bootstrap_servers) as wire:
        assert log_in(wire).error_code == 0
