"""TLS and SASL of the client: what it sends, what it checks, and its error messages."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headrace.client.client import ANY, ClusterClient
from headrace.client.errors import AuthenticationFailed, BadSecurityFiles, TlsFailed
from headrace.client.login.sasl import SaslRefused, start
from headrace.client.login.security import (
    PLAINTEXT,
    Credentials,
    InvalidSecurity,
    Mechanism,
    Security,
    Tls,
    TokenSource,
    security_of,
)
from headrace.client.metadata import metadata_request
from headrace.client.network import connection_pool
from headrace.clock import SystemClock
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.metadata import MetadataResponse
from headrace.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from headrace.protocol.messages.sasl_handshake import SaslHandshakeResponse

Make = Callable[..., Any]
PLAIN = Credentials(Mechanism.PLAIN, "me", "secret")

# The example of RFC 7677.
RFC = Credentials(Mechanism.SCRAM_SHA_256, "user", "pencil")
NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
PROOF = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
VERIFIER = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_follows_the_rfc_example() -> None:
    exchange = start(RFC, NONCE)
    assert next(exchange) == b"n,,n=user,r=" + NONCE.encode()
    assert exchange.send(CHALLENGE) == PROOF
    with pytest.raises(StopIteration):
        exchange.send(VERIFIER)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    exchange = start(RFC, NONCE)
    next(exchange)
    exchange.send(CHALLENGE)
    with pytest.raises(SaslRefused, match="did not prove"):
        exchange.send(b"v=AAAA")


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=" + NONCE.encode() + b"x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        b"r=" + NONCE.encode() + b"x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999",
        b"r=" + NONCE.encode() + b"x,s=%%%,i=4096",
        b"e=unknown-user",
        b"",
        b"\xff\xff",
    ],
)
def test_an_invalid_challenge_is_refused(challenge: bytes) -> None:
    exchange = start(RFC, NONCE)
    next(exchange)
    with pytest.raises(SaslRefused):
        exchange.send(challenge)


def test_names_with_commas_and_equals_signs_are_escaped() -> None:
    exchange = start(Credentials(Mechanism.SCRAM_SHA_512, "a=b,c", "x"), "n")
    assert next(exchange) == b"n,,n=a=3Db=2Cc,r=n"


def test_a_delegation_token_is_announced_in_the_first_message() -> None:
    token = Credentials(Mechanism.SCRAM_SHA_256, "id", "hmac", is_token=True)
    assert next(start(token, "n")) == b"n,,n=id,r=n,tokenauth=true"


BEARER = Credentials(
    Mechanism.OAUTHBEARER, token_source=TokenSource("file:///t"), extensions=(("pool", "a"),)
)


def test_a_bearer_token_is_sent_with_its_extensions() -> None:
    exchange = start(BEARER, "n", "a.b.c")
    assert next(exchange) == b"n,,\x01auth=Bearer a.b.c\x01pool=a\x01\x01"
    with pytest.raises(StopIteration):
        exchange.send(b"")


def test_a_refused_bearer_token_is_acknowledged_before_the_error() -> None:
    exchange = start(BEARER, "n", "a.b.c")
    next(exchange)
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(SaslRefused, match="invalid_token"):
        exchange.send(b"")


def test_the_settings_of_every_mechanism_are_read() -> None:
    sasl = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    oauth = {
        "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        "sasl.oauthbearer.client.id": "app",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.extensions": "pool=a, zone=b",
    }
    found = security_of({**sasl, **oauth}).sasl
    assert found is not None
    assert found.token_source == TokenSource("https://issuer/token", "app", "hush")
    assert found.extensions == (("pool", "a"), ("zone", "b"))
    assert "hush" not in repr(found)
    java = 'ScramLoginModule required username="id" password="hmac" tokenauth="true";'
    token = security_of({**sasl, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": java}).sasl
    assert token == Credentials(Mechanism.SCRAM_SHA_256, "id", "hmac", is_token=True)


def test_secrets_are_not_in_the_repr() -> None:
    security = Security(tls=Tls(key_password="hush"), sasl=PLAIN)
    assert "secret" not in repr(security)
    assert "hush" not in repr(security)


def test_security_is_read_from_settings() -> None:
    assert security_of({}) == PLAINTEXT
    assert security_of({"security.protocol": "ssl", "ssl.ca.location": "ca.pem"}).tls == Tls(
        "ca.pem"
    )
    both = security_of(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "scram-sha-512",
            "sasl.username": "me",
            "sasl.password": "p",
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert both.sasl == Credentials(Mechanism.SCRAM_SHA_512, "me", "p")
    assert both.tls == Tls(check_hostname=False)


OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"security.protocol": "TLS"}, "SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "GSSAPI"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.username and"),
        ({**OAUTH}, "token.endpoint.url"),
        ({**OAUTH, ENDPOINT: "http://issuer/token"}, "token.endpoint.url"),
        ({**OAUTH, ENDPOINT: "http://localhost:1@issuer/token"}, "token.endpoint.url"),
        ({**OAUTH, ENDPOINT: "file://host/token"}, "token.endpoint.url"),
        ({**OAUTH, ENDPOINT: "https://issuer/token"}, "client.secret"),
        ({**OAUTH, ENDPOINT: "file:///t", "sasl.oauthbearer.extensions": "a"}, "extensions"),
        ({**OAUTH, ENDPOINT: "file:///t", "sasl.oauthbearer.extensions": "auth=x"}, "extensions"),
    ],
)
def test_missing_settings_are_named_in_the_error(settings: dict[str, str], missing: str) -> None:
    with pytest.raises(InvalidSecurity, match=missing):
        security_of(settings)


async def ask(broker: Any, security: Security) -> MetadataResponse:
    async with ClusterClient(
        broker.address, client_id="test", clock=SystemClock(), random=Random(1), security=security
    ) as client:
        return await client.send(metadata_request([]), MetadataResponse, to=ANY, retry=False)


def with_plain(broker: Any) -> list[bytes]:
    """The broker accepts PLAIN from `me` with `secret`; returns the tokens that it received."""
    tokens: list[bytes] = []

    def check(request: Any, version: int) -> SaslAuthenticateResponse:
        tokens.append(bytes(request.auth_bytes))
        if tokens[-1] == b"\0me\0secret":
            return SaslAuthenticateResponse(error_message=None)
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="wrong password"
        )

    broker.handlers[ApiKey.SASL_HANDSHAKE] = lambda request, version: SaslHandshakeResponse(
        error_code=0 if request.mechanism == "PLAIN" else ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        mechanisms=["PLAIN"],
    )
    broker.handlers[ApiKey.SASL_AUTHENTICATE] = check
    return tokens


def test_authentication_precedes_the_first_request(make_broker: Make) -> None:
    async def run() -> None:
        async with make_broker() as broker:
            with_plain(broker)
            await ask(broker, Security(sasl=PLAIN))
            order = [key for key, _ in broker.seen]
        assert order == [
            ApiKey.API_VERSIONS,
            ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
            ApiKey.METADATA,
        ]

    asyncio.run(run())


def test_a_wrong_password_is_not_retried_and_names_the_user(make_broker: Make) -> None:
    async def run() -> None:
        async with make_broker() as broker:
            tokens = with_plain(broker)
            wrong = Security(sasl=Credentials(Mechanism.PLAIN, "me", "guess"))
            with pytest.raises(AuthenticationFailed, match="'me': wrong password"):
                await ask(broker, wrong)
            assert len(tokens) == 1

    asyncio.run(run())


def test_a_new_connection_replaces_one_whose_session_ends_soon(
    make_broker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here every session ends soon, so that each request needs a new one."""
    monkeypatch.setattr(connection_pool, "RENEW_AT", 0)

    async def run() -> None:
        async with make_broker() as broker:
            with_plain(broker)
            broker.handlers[ApiKey.SASL_AUTHENTICATE] = lambda request, version: (
                SaslAuthenticateResponse(error_message=None, session_lifetime_ms=60_000)
            )
            async with ClusterClient(
                broker.address,
                client_id="test",
                clock=SystemClock(),
                random=Random(1),
                security=Security(sasl=PLAIN),
            ) as client:
                for sent in range(1, 4):
                    await client.send(metadata_request([]), MetadataResponse, to=ANY, retry=False)
                    assert broker.count(ApiKey.SASL_AUTHENTICATE) == sent

    asyncio.run(run())


def test_an_unsupported_mechanism_error_names_the_supported_ones(make_broker: Make) -> None:
    async def run() -> None:
        async with make_broker() as broker:
            with_plain(broker)
            with pytest.raises(AuthenticationFailed, match="it accepts PLAIN"):
                await ask(broker, Security(sasl=RFC))

    asyncio.run(run())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subject = ("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run(
        ["openssl", "req", "-x509", "-days", "2", *curve, *subject, *files],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return certificate, key


def test_tls_connects_only_to_a_trusted_broker(
    make_broker: Make, certificate: tuple[Path, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    async def run() -> None:
        async with make_broker(tls=context) as broker:
            answer = await ask(broker, Security(tls=Tls(ca=str(certificate[0]))))
            assert answer.cluster_id == "test"
            with pytest.raises(TlsFailed, match="not trusted"):
                await ask(broker, Security(tls=Tls()))
            unchecked = Tls(verify=False, check_hostname=False)
            assert (await ask(broker, Security(tls=unchecked))).cluster_id == "test"

    asyncio.run(run())


def test_a_missing_certificate_is_named_in_the_error(make_broker: Make, tmp_path: Path) -> None:
    async def run() -> None:
        async with make_broker() as broker:
            with pytest.raises(BadSecurityFiles, match=r"none\.pem"):
                await ask(broker, Security(tls=Tls(ca=str(tmp_path / "none.pem"))))

    asyncio.run(run())
